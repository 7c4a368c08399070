// CROSSBOW: synchronous model averaging of many learners, several of them on one device (paper 002,
// sections 3 and 4). Algorithms sma and easgd are this with and without momentum; their files say
// what the paper says.
//
// One worker is one device. In an iteration every learner j of its l_g ones takes a batch:
//   d_j = w_j - a_j                          a_j: the model that it is averaged with (z; see below)
//   w_j <- step(w_j) - alpha d_j             step: w - lr g, or the plan's optimizer
//   z   <- z + sum_j alpha d_j + mu (z - z_prev)                              the same on all devices
// d_j depends on the w_j before the step alone, so the sum over devices travels during the step.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithm/background_all_reduce.hpp"
#include "algorithm/crossbow_options.hpp"
#include "algorithm/learner_tuner.hpp"
#include "algorithm/worker.hpp"

namespace hetsgd {

// One device with its learners.
class Crossbow {
 public:
  // Collective.
  Crossbow(Worker& self, const CrossbowOptions& options);

  // The life of a worker.
  void train();

 private:
  void restart_if_due(double epoch);
  void iteration(double epoch, bool synchronise);
  void differences();
  void correct();
  void update_average();
  void tune();
  void set_share(const LearnerShare& share);
  void resize(int learners);
  void warn_if_unstable();
  std::uint64_t iterations_until_average() const;
  double epoch() const;
  const Buffer& partner(std::size_t j) const;
  double rate(std::size_t j) const { return hierarchical() && j > 0 ? local_alpha_ : alpha_; }
  bool hierarchical() const { return o_.averaging == Averaging::hierarchical; }
  void record_learners(const std::vector<int>& learners, const std::vector<double>& throughput);

  Worker& self_;
  const CrossbowOptions& o_;
  std::vector<Learner> learners_;  // of this device
  std::vector<Buffer> d_;          // d_j
  Buffer z_, z_prev_;              // z_prev only with momentum
  BackgroundAllReduce sum_;

  LearnerShare share_;  // this device's of all learners
  double alpha_ = 0;
  double local_alpha_ = 0;  // hierarchical: of the further learners of a device
  bool warned_ = false;

  std::uint64_t samples_ = 0;         // of all learners, at the current iteration
  std::uint64_t samples_before_ = 0;  // the round before: what was measured by then all know
  std::size_t rate_steps_ = 0;        // steps of the learning rate so far
  std::uint64_t rate_step_at_ = 0;    // the last one, in samples

  LearnerTuner tuner_;
  Seconds measured_since_{0};
  std::uint64_t measured_ = 0;  // iterations
};

}  // namespace hetsgd
