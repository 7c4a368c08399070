#include "training/segments.hpp"

#include <algorithm>

#include "training/record.hpp"

namespace hetsgd {

bool SegmentEnds::take_due(std::uint64_t samples) {
  before_ = passed_;
  const std::uint64_t before = std::exchange(passed_.samples, samples);
  const auto passes = [&](std::uint64_t at) { return at > before && at <= samples; };
  const int requests = rules_.request ? rules_.request->load() : 0;
  ++passed_.evaluations;
  reason_.clear();
  if (rules_.every > 0 && passed_.evaluations >= rules_.every) reason_ = "every";
  if (std::ranges::any_of(rules_.at, passes)) reason_ = "at";
  if (requests != std::exchange(passed_.requests, requests)) reason_ = "signal";
  for (const auto& [at, reason] : rules_.repeated) {
    if (passes(at)) reason_ = reason;
  }
  if (reason_.empty()) return false;
  passed_.evaluations = 0;
  return true;
}

void SegmentEnds::put_back() {
  passed_ = before_;
  reason_.clear();
}

SegmentRecord SegmentEnds::last(const CurvePoint& point) const {
  return {.samples_count = point.samples_count, .time = point.time, .reason = reason_};
}

void SegmentEnds::fields(Archive& fields) {
  fields("evaluations", passed_.evaluations);
  fields("samples", passed_.samples);
}

}  // namespace hetsgd
