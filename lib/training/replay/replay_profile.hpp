// The conditions of a recorded run as a simulated machine: hetsgd train --replay.
//
// The k-th step of worker i takes a(W) r_i(k): a(W) is the time of its work on an undisturbed
// device (work_times.hpp), and r_i(k) = recorded time / a(recorded W) is how much slower the
// recorded step was, delays included. Past the end of the record the steps repeat. A step with the
// recorded work takes exactly the recorded time, so the recorded algorithm has its own times again.
//
// Delays that --straggler has added to a step whatever its work (uniform, lognormal, pareto, ...)
// are known from the header of the record. They are left out of r and added as they are.
//
//   --replay-by iteration   r by the number of the step: what belongs to the worker's steps
//   --replay-by time        r of the step that the worker had begun at this time of the record,
//                           which repeats as well: what comes from outside, by the clock
//
// In a record of a simulated run profiles, speeds and network are the recorded ones. In a record of
// real time the profiles are fitted, and the network is fitted by least squares to the recorded
// messages, collectives and requests. Step times of other tools have neither: then --profile and
// --network say what vector operations and messages cost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/straggler.hpp"
#include "training/replay/work_times.hpp"
#include "training/timeline/timeline.hpp"

namespace hetsgd {

enum class ReplayBy { iteration, time };

class ReplayProfile {
 public:
  // Throws what read_timeline() throws, and Error(data) if a worker has no step. Throws
  // Error(usage) for another number of workers than the record has.
  ReplayProfile(const std::string& path, ReplayBy by, int workers);

  const Timeline& timeline() const { return timeline_; }
  // The recorded or fitted machine; none, if the record does not say.
  std::optional<std::vector<DeviceProfile>> profiles() const;
  std::optional<DeviceProfile> server_profile() const;
  std::optional<NetworkModel> network() const;
  std::vector<double> speed() const;

  // A warning for a run that is longer than the record; "": it is not.
  std::string note_on_length(const Record& record) const;

  ClusterOptions::StepTimes step(const ClusterOptions::StepRequest& request) const;

 private:
  struct Step {
    Seconds begin{0};
    ClusterOptions::StepTimes times;
    Work work;
    Seconds added{0};  // part of the time that does not go with the work
  };
  void read_steps(int rank, const Scenario* injected);
  const Step& recorded(const ClusterOptions::StepRequest& request) const;

  Timeline timeline_;
  ReplayBy by_;
  WorkTimes work_;
  std::vector<std::vector<Step>> steps_;  // by rank
};

// The links that the recorded messages, collectives and requests fit best, in real time; none, if
// there are too few.
std::optional<NetworkModel> fit_recorded_network(const Timeline& timeline);

}  // namespace hetsgd
