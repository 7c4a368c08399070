#include "training/trace.hpp"

#include <algorithm>
#include <utility>

namespace hetsgd {

TraceLine& Trace::line(int rank, const std::string& background_task) {
  const std::string name =
      "worker " + std::to_string(rank) + (background_task.empty() ? "" : " " + background_task);
  const std::lock_guard lock(mutex_);
  return lines_.emplace_back(TraceLine{rank, name, background_task.empty(), {}});
}

void Trace::add(TraceLine line) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::move(line));
}

GroupCalls& Trace::world_calls(int rank) {
  const std::lock_guard lock(mutex_);
  return world_calls_[rank];
}

std::vector<const TraceLine*> Trace::lines() const {
  const std::lock_guard lock(mutex_);
  std::vector<const TraceLine*> all;
  for (const TraceLine& line : lines_) all.push_back(&line);
  std::sort(all.begin(), all.end(), [](const TraceLine* a, const TraceLine* b) {
    return a->rank != b->rank ? a->rank < b->rank : a->name < b->name;
  });
  return all;
}

}  // namespace hetsgd
