#include "algorithm/run_state.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hetsgd {

// Puts the names of an object's fields behind its own.
struct RunState::Named {
  Kept& kept;
  void fields(Archive& archive) { kept.fields(archive); }
};

namespace {

bool has_fields(const SavedFields& fields, const std::string& name) {
  const auto first = fields.lower_bound(name + "/");
  return first != fields.end() && first->first.starts_with(name + "/");
}

}  // namespace

RunState::RunState(const SavedRun* from, bool is_saved, std::vector<int> view)
    : from_(from), is_saved_(is_saved), view_(std::move(view)) {
  if (from_ == nullptr) return;
  // A worker that was lost has no state, even if it is back already.
  const auto has_state = [&](int worker) {
    return std::ranges::find(from_->with_state, worker) != from_->with_state.end();
  };
  if (from_->view == view_ && std::ranges::all_of(view_, has_state)) return;
  other_.emplace();
  for (const int worker : view_) {
    const auto before = std::ranges::find(from_->view, worker) - from_->view.begin();
    const bool stays = before < std::ssize(from_->view) && has_state(worker);
    other_->rank_before.push_back(stays ? static_cast<int>(before) : -1);
  }
  if (from_->with_state.empty()) return;
  const auto first = from_->workers.find(from_->with_state.front());
  if (first != from_->workers.end()) other_->first = &first->second;
}

void RunState::load(Kept kept) {
  static const SavedFields kNone;
  const bool shared = kept.worker == kShared;
  const auto own = from_->workers.find(kept.worker);
  const SavedFields& fields_of = shared                        ? from_->shared
                                 : own != from_->workers.end() ? own->second
                                                               : kNone;
  std::optional<OtherWorkers> other = other_;
  if (other && !shared) other->joins = !has_fields(fields_of, kept.name);
  Archive fields = Archive::loading(fields_of, from_->common,
                                    shared ? "the saved run: what workers share"
                                           : fmt::format("the saved run: worker {}", kept.worker),
                                    other ? &*other : nullptr);
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
  SavedFields& to = saved_[kept.worker];
  Archive fields = Archive::saving(to, to);
  Named object{kept};
  fields(kept.name, object);
}

bool RunState::joins(int worker) const {
  if (!goes_on()) return false;
  const auto own = from_->workers.find(worker);
  return own == from_->workers.end() || std::ranges::all_of(own->second, [](const auto& field) {
           return field.first.starts_with("worker/");
         });
}

bool RunState::has_kept(int worker) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(kept_, [&](const Kept& kept) { return kept.worker == worker; });
}

// In the order of ranks and names, so that one worker's common fields are those that are kept.
void RunState::save(SavedRun& to, const std::vector<int>& lost) {
  const std::lock_guard lock(mutex_);
  std::ranges::sort(kept_, {}, [](const Kept& kept) { return std::pair(kept.worker, kept.name); });
  for (Kept& kept : kept_) {
    if (std::ranges::find(lost, kept.worker) != lost.end()) continue;
    SavedFields& own = kept.worker == kShared ? to.shared : to.workers[kept.worker];
    if (kept.worker != kShared && (to.with_state.empty() || to.with_state.back() != kept.worker)) {
      to.with_state.push_back(kept.worker);
    }
    Archive fields =
        lost.empty() ? Archive::saving(own, to.common) : Archive::saving_first(own, to.common);
    Named object{kept};
    fields(kept.name, object);
  }
  kept_.clear();
  to.view = view_;
  for (auto& [worker, fields] : saved_) to.workers[worker].merge(fields);
}

}  // namespace hetsgd
