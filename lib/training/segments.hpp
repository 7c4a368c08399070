// Where a run is cut into segments. Its state can be saved at their ends. Segments end at
// evaluations alone, so that a model is measured there.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/archive.hpp"
#include "core/units.hpp"

namespace hetsgd {

struct CurvePoint;

struct SegmentRules {
  std::uint64_t every = 0;          // evaluations; 0: only at `at` and on request
  std::vector<std::uint64_t> at{};  // samples, ascending: at the first evaluation from there on
  std::map<std::uint64_t, std::string> repeated{};  // the same with the reasons of another run
  const std::atomic<int>* request =
      nullptr;  // raised by a signal, which ends the segment; may be null
};

// The end of a segment, for the result. With samples_count in SegmentRules a run repeats it.
struct SegmentRecord {
  std::uint64_t samples_count = 0;
  Seconds time{0};     // training clock, of the evaluation
  std::string reason;  // "every", "at", "signal"

  static constexpr auto members() {
    using S = SegmentRecord;
    return std::tuple(&S::samples_count, &S::time, &S::reason);
  }
};

// Follows the evaluations of a run. Not thread-safe.
class SegmentEnds {
 public:
  // The rules outlive it.
  explicit SegmentEnds(const SegmentRules& rules) : rules_(rules) {}
  // Whether the segment ends at this evaluation.
  bool take_due(std::uint64_t samples);
  // That evaluation was not made, and will be asked for again.
  void put_back();
  // Whether the last take_due() has found one. Else a loss or a return ends the segment.
  bool found() const { return !reason_.empty(); }
  // The end that take_due() has found, at its measurement.
  SegmentRecord last(const CurvePoint& point) const;
  void fields(Archive& fields);

 private:
  const SegmentRules& rules_;
  struct Passed {
    std::uint64_t evaluations = 0;  // since the last end
    std::uint64_t samples = 0;      // at the last evaluation
    int requests = 0;               // answered so far
  };
  Passed passed_, before_;  // before_: at the last take_due()
  std::string reason_;
};

}  // namespace hetsgd
