// A target such as p1>=0.6, and when a run counts as having reached it.
//
// Accuracy swings from one evaluation to the next, above all where replicas are merged rarely. A
// curve that touches its target once and falls back has not learnt that accuracy. A learning rate
// that is tuned for an early first crossing is tuned for large swings. So a target counts as
// reached when it is HELD:
//
//   the first evaluation that reaches the target and whose median with the next four does, too.
//
// A curve that rises without falling has its first crossing there. A run that ends sooner is judged
// by its remaining evaluations, at least three. This is the one definition of the project:
// --stop-at-target, --require-target, time_to_accuracy, tuning, sweeps, compare, report and score
// all take it from here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace hetsgd {

struct Target {
  std::string metric;    // its key: "p1", "test_loss"
  bool at_least = true;  // false: <= (losses)
  double value = 0;
  std::string text() const;  // "p1>=0.6"
};
// Throws Error(usage) naming `place` for a value that the metric cannot have: a share outside of 0
// to 1.
void check_value(const Target& target, const std::string& place);
// Throws Error(usage) naming `place`.
Target parse_target(const std::string& text, const std::string& place);
// Whether one value reaches the target, bounds included. NaN reaches nothing.
bool reached(const Target& target, double value);

// The number of evaluations that decide whether a target is held, including the one that reaches
// it, and the fewest that suffice at the end of a run.
inline constexpr std::size_t kHoldEvaluations = 5;
inline constexpr std::size_t kFewestHoldEvaluations = 3;

// Indices into the values of a curve.
struct Hold {
  std::optional<std::size_t> first_crossing;  // the first value that reaches the target
  std::optional<std::size_t> held;            // it is held from this value on
  std::size_t judged_by = 0;  // evaluations that decided `held`, 3 to 5; 0: it is not held
  bool certain = false;       // no further evaluation could have changed that it is held
};
Hold hold_of(const Target& target, std::span<const double> values);

// Follows a run and finds when a target is held for certain (Hold::certain): three of five
// evaluations in a row reach it.
class HoldWatch {
 public:
  explicit HoldWatch(Target target) : target_(std::move(target)) {}
  void add(double value);  // the value of the next evaluation
  bool held() const { return held_; }
  const Target& target() const { return target_; }

 private:
  Target target_;
  std::array<bool, kHoldEvaluations> last_{};  // whether the last evaluations reached it, a ring
  std::size_t next_ = 0;
  bool held_ = false;
};

}  // namespace hetsgd
