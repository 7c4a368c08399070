// What "time to a target" may mean: the training clock, and three clocks of public benchmarks.
//
//   training    the run's own clock: neither loading nor measuring, on every cluster
//   algoperf    training + making the measured models so far (AlgoPerf times prepare_for_eval and
//               not the evaluation)
//   mlperf      host time from the first touch of the training data to the end of the evaluation,
//               never paused. Initialisation follows the data, whose shape it needs, so it is
//               inside, though MLPerf would forgive 30 minutes before the first touch
//   dawnbench   load_s + init_s + training (DAWNBench's validation and checkpoints may stay out)
//
// Of a simulated run the last two do not exist: its time is not the host's. Its algoperf charges
// one pass over the parameters on the host for every replica in a measured model.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "result/time_to_accuracy.hpp"
#include "training/record.hpp"

namespace hetsgd {

enum class RunClock { training, algoperf, mlperf, dawnbench };
std::string to_string(RunClock clock);

// What a clock needs besides the evaluation.
struct RunStart {
  bool virtual_time = false;
  double load_s = 0, init_s = 0;

  static RunStart of(const Record& record);
  static RunStart of(const nlohmann::json& result);  // a valid one
};

// When the evaluation was reached. None: the clock does not exist for this run (no_time_reason).
std::optional<double> time_on(RunClock clock, const Evaluation& evaluation, const RunStart& start);
std::string no_time_reason(const RunStart& start);

// {"algoperf_s", "mlperf_s", "dawnbench_s"} of an evaluation; null stands with its reason.
nlohmann::json clocks_json(const Evaluation& evaluation, const RunStart& start);

}  // namespace hetsgd
