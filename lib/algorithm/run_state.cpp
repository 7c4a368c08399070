#include "algorithm/run_state.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hetsgd {

// Puts the names of an object's fields behind its own.
struct RunState::Named {
  Kept& kept;
  void fields(Archive& archive) { kept.fields(archive); }
};

void RunState::add(Kept kept) {
  if (from_ != nullptr) {
    const bool shared = kept.rank == kShared;
    Archive fields = Archive::loading(
        shared ? from_->shared : from_->workers[kept.rank], from_->common,
        shared ? "the saved run: what workers share"
               : fmt::format("the saved run: worker {}", kept.rank));
    Named object{kept};
    fields(kept.name, object);
  }
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(kept));
}

bool RunState::may_begin(int rank) const {
  const std::lock_guard lock(mutex_);
  return !is_saved_ || std::ranges::any_of(kept_, [&](const Kept& kept) {
           return kept.rank == rank;
         });
}

// In the order of ranks and names, so that one worker's common fields are those that are kept.
void RunState::save(SavedRun& to) {
  const std::lock_guard lock(mutex_);
  std::ranges::sort(kept_, {}, [](const Kept& kept) { return std::pair(kept.rank, kept.name); });
  for (Kept& kept : kept_) {
    Archive fields = Archive::saving(kept.rank == kShared ? to.shared : to.workers[kept.rank],
                                     to.common);
    Named object{kept};
    fields(kept.name, object);
    kept.object.reset();
  }
  kept_.clear();
}

}  // namespace hetsgd
