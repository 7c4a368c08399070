// The common parts of both calibrations: timing, messages, and the description of the machine.
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

// Calls `once`, which returns seconds, until `point_time` is over and at least
// kFewestCalibrationTimes times. Returns the median.
double median_time(Seconds point_time, const std::function<double()>& once);
// The text of a fit's errors: "12 points, error 1.2 % in the median, 3.4 % at most".
std::string fit_errors(std::size_t points, double median_error, double max_error);
// The processor in environment_json().
std::string processor_of(const nlohmann::json& environment);

// --- the device that is measured, and the steps whose times fit a profile ------------------------

inline constexpr std::size_t kFewestCalibrationTimes = 5;  // per point, even beyond --point-time

// The device that is measured.
struct CalibrationTarget {
  std::unique_ptr<BasicDevice<float>> device;
  std::string hardware;  // "NVIDIA H200"
  double memory_bytes = 0;
  bool own_core = false;  // the calling thread does all work
  // Steps between two readings of the clock. A GPU gets several, because in training it receives
  // the next step while it works on the current one.
  std::size_t group = 1;

  // The clock for steps. With one core it is the thread's CPU time, which other processes cannot
  // lengthen; otherwise it is the wall clock.
  Seconds now() const;
};

struct CalibrationPoint {
  std::string data;  // name of the data, or of the model and its pass
  std::size_t hidden = 0, batch_size = 0, steps = 0;
  CalibrationSample sample;
  bool is_step = true;  // false: a vector operation, which is FP32 at every precision
};

// Checks the free memory for a model. Throws Error(data) if the model does not fit.
void require_room(const Layout& layout, std::size_t hidden);

// Times the passes of a click model with two hidden layers of `hidden` units each, on rows of
// Criteo's shape (13 dense columns, 26 fields). The embeddings are given. It returns three points
// with median times: forward pass, backward pass and update, which are separate stages with sharded
// tables. The update mainly moves bytes, so it separates the rate of bytes from that of operations.
// `model` must read fields.
std::vector<CalibrationPoint> click_points(const CalibrationTarget& target,
                                           const RegisteredModel& model, std::size_t hidden,
                                           std::size_t batch_size, Seconds point_time);

}  // namespace hetsgd
