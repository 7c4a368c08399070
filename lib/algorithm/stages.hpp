// The stages of training with sharded tables. Times are reported (workers[].stages of the result)
// and charged (--charge) by stage.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/archive.hpp"
#include "core/units.hpp"

namespace hetsgd {

enum class Stage {
  ids,         // which rows a batch needs, at its requester, and their numbers to the owners
  sfp,         // sparse forward: gather at the owners
  f_exchange,  // rows to the requesters
  fp,          // dense forward
  bp,          // dense backward
  b_exchange,  // sums of rows' gradients to the owners
  sbp,         // sparse backward: update of rows
  all_reduce,  // of the dense gradient
  opt,         // update of the dense part
  stall,       // a worker waits for what its other processes communicate or prepare
};
inline constexpr std::array<std::string_view, 10> kStageNames = {
    "ids", "sfp", "f_exchange", "fp", "bp", "b_exchange", "sbp", "all_reduce", "opt", "stall"};

// Times of one worker, by Stage: its own time in computing stages, and the time from begin to end
// of exchanges, whichever of its processes makes them.
class StageTimes {
 public:
  Seconds& operator[](Stage stage) { return times_[static_cast<std::size_t>(stage)]; }
  Seconds operator[](Stage stage) const { return times_[static_cast<std::size_t>(stage)]; }
  void fields(Archive& fields) { fields("times", times_); }
  bool empty() const {
    for (const Seconds time : times_) {
      if (time != Seconds(0)) return false;
    }
    return true;
  }

 private:
  std::array<Seconds, kStageNames.size()> times_{};
};

}  // namespace hetsgd
