#include "training/segments.hpp"

#include <algorithm>

#include "training/record.hpp"

namespace hetsgd {

bool SegmentEnds::take_due(std::uint64_t samples) {
  const std::uint64_t before = std::exchange(samples_, samples);
  const auto passes = [&](std::uint64_t at) { return at > before && at <= samples; };
  const int requests = rules_.request ? rules_.request->load() : 0;
  ++evaluations_;
  reason_.clear();
  if (rules_.every > 0 && evaluations_ >= rules_.every) reason_ = "every";
  if (std::ranges::any_of(rules_.at, passes)) reason_ = "at";
  if (requests != std::exchange(requests_, requests)) reason_ = "signal";
  if (reason_.empty()) return false;
  evaluations_ = 0;
  return true;
}

SegmentRecord SegmentEnds::last(const CurvePoint& point) const {
  return {.samples_count = point.samples_count, .time = point.time, .reason = reason_};
}

void SegmentEnds::fields(Archive& fields) {
  fields("evaluations", evaluations_);
  fields("samples", samples_);
}

}  // namespace hetsgd
