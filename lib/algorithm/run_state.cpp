#include "algorithm/run_state.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hetsgd {

// Puts the names of an object's fields behind its own.
struct RunState::Named {
  Kept& kept;
  void fields(Archive& archive) { kept.fields(archive); }
};

void RunState::load(Kept kept) {
  const bool shared = kept.rank == kShared;
  Archive fields =
      Archive::loading(shared ? from_->shared : from_->workers.at(kept.rank), from_->common,
                       shared ? "the saved run: what workers share"
                              : fmt::format("the saved run: worker {}", kept.rank));
  Named object{kept};
  fields(kept.name, object);
}

void RunState::add(Kept kept) {
  if (goes_on()) load(kept);
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(kept));
}

void RunState::add_saved(Kept kept) {
  if (!is_saved_) return;
  const std::lock_guard lock(mutex_);
  SavedFields& to = saved_[kept.rank];
  Archive fields = Archive::saving(to, to);
  Named object{kept};
  fields(kept.name, object);
}

bool RunState::may_begin(int rank) const {
  const std::lock_guard lock(mutex_);
  return !is_saved_ ||
         std::ranges::any_of(kept_, [&](const Kept& kept) { return kept.rank == rank; });
}

// In the order of ranks and names, so that one worker's common fields are those that are kept.
void RunState::save(SavedRun& to) {
  const std::lock_guard lock(mutex_);
  std::ranges::sort(kept_, {}, [](const Kept& kept) { return std::pair(kept.rank, kept.name); });
  for (Kept& kept : kept_) {
    Archive fields =
        Archive::saving(kept.rank == kShared ? to.shared : to.workers[kept.rank], to.common);
    Named object{kept};
    fields(kept.name, object);
    kept.object.reset();
  }
  kept_.clear();
  for (auto& [rank, fields] : saved_) to.workers[rank].merge(fields);
}

}  // namespace hetsgd
