// What both calibrations share: what they show and what they say of the machine.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cluster/calibrate.hpp"
#include "core/units.hpp"
#include "linalg/device.hpp"
#include "model/registry.hpp"

namespace hetsgd {

// Calls `once`, which returns seconds, until `point_time` is over, but kFewestCalibrationTimes times at
// least, and returns the median.
double median_time(Seconds point_time, const std::function<double()>& once);
// Errors of a fit: "12 points, error 1.2 % in the median, 3.4 % at most".
std::string fit_errors(std::size_t points, double median_error, double max_error);
// The processor that environment_json() names.
std::string processor_of(const nlohmann::json& environment);

// What `hetsgd calibrate` measures on, and the steps to whose times it fits a profile.

inline constexpr std::size_t kFewestCalibrationTimes = 5;  // per point, whatever --point-time says

// What is measured on.
struct CalibrationTarget {
  std::unique_ptr<BasicDevice<float>> device;
  std::string hardware;  // "NVIDIA H200"
  double memory_bytes = 0;
  bool own_core = false;  // all work is done by the calling thread
  // Steps between two readings of the clock. A GPU gets several, as in training: it is given the
  // next step while it works on this one.
  std::size_t group = 1;

  // The clock for steps. One core: the thread's own CPU time, which other processes cannot stretch;
  // more cores: the clock.
  Seconds now() const;
};

struct CalibrationPoint {
  std::string data;  // or the model and its pass
  std::size_t hidden = 0, batch_size = 0, steps = 0;
  CalibrationSample sample;
};

// Errors: data, a model for which this machine has no memory left.
void require_room(const Layout& layout, std::size_t hidden);

// The forward pass, the backward pass and the update of a click model with two hidden layers of so
// many units each, on rows of Criteo's shape (13 dense columns, 26 fields) whose embeddings
// somebody else has looked up: three points with their median times, as sharded tables have these
// as stages of their own. The update moves bytes and hardly computes: it tells their rate from that
// of operations. model: one that reads fields.
std::vector<CalibrationPoint> click_points(const CalibrationTarget& target,
                                           const RegisteredModel& model, std::size_t hidden,
                                           std::size_t batch_size, Seconds point_time);

}  // namespace hetsgd
