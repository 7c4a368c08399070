// DeviceTimeline: one worker's device in virtual time, which all its processes compute on.
//
// Vector operations go first, one after the other in the order in which they start; a step goes on
// while there are none, as the kernels of two streams share a GPU. So nothing of the device's time
// is given twice: a step ends later by what vector operations of other processes take while it
// computes.
//
//   background task   .        |== v1 ==|     |== v2 ==|
//   main process      |= step =|........|=====|........|=  step  |- injected delay -|
//                     start                              start + step + v1 + v2
//
// The device rests in the extra delays that a straggler scenario adds to a step, and while a vector
// is copied to the host or back: vector operations that come then take nothing of it. Two steps at
// once, which no algorithm computes, do not slow each other down.
#pragma once

#include <algorithm>
#include <utility>

#include "cluster/endpoint.hpp"

namespace hetsgd::sim {

// Of the event loop's thread; times are virtual seconds.
class DeviceTimeline {
 public:
  // One computation. It stays where it is until its end, or until it is cut short, and goes before
  // the device.
  class Use {
   public:
    // Starts now. Alone it would take `busy` on the device and end after `whole` >= busy.
    Use(DeviceTimeline& device, double now, ComputeKind kind, double busy, double whole)
        : device_(device) {
      waited_ = std::max(0.0, device.vectors_until_ - now);
      busy_until_ = now + waited_ + busy;
      end_ = now + waited_ + whole;
      if (kind == ComputeKind::vector) {
        device.hold_up_steps(now, busy, busy_until_);
      } else {
        next_ = std::exchange(device.steps_, this);
      }
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      Use** place = &device_.steps_;
      while (*place != nullptr && *place != this) place = &(*place)->next_;
      if (*place == this) *place = next_;
    }

    // As far as is known: that of a step may move while it goes on.
    double end() const { return end_; }
    // How much of it other computations had the device.
    double waited() const { return waited_; }

   private:
    friend class DeviceTimeline;
    DeviceTimeline& device_;
    Use* next_ = nullptr;  // of the steps that go on
    double busy_until_ = 0, end_ = 0, waited_ = 0;
  };

 private:
  // A vector operation has been put on the device, up to `until`.
  void hold_up_steps(double now, double seconds, double until) {
    vectors_until_ = until;
    for (Use* step = steps_; step != nullptr; step = step->next_) {
      if (now >= step->busy_until_) continue;
      step->busy_until_ += seconds;
      step->end_ += seconds;
      step->waited_ += seconds;
    }
  }

  double vectors_until_ = 0;
  Use* steps_ = nullptr;
};

}  // namespace hetsgd::sim
