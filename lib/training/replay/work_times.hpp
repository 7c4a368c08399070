// a(W): the seconds that a piece of work of a recorded run takes on an undisturbed device.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cluster/profile.hpp"
#include "training/timeline/timeline.hpp"

namespace hetsgd {

// Own time of a computation: without its injected delays, and without waits for its device.
inline double own_seconds(const RecordedCall& range) {
  if (range.charged > Seconds(0)) return (range.charged - range.delay).count();
  return (range.end - range.begin - range.wait - range.delay).count();
}

// In virtual time a is that of the recorded device profiles, exactly. In real time it is a profile
// that is fitted to the recorded own times (cluster/calibrate.hpp), one for each name of
// computations ("step", "vector", ...). Where a record states no work, as step times of other tools
// do, every computation counts alike: a = 1 s.
class WorkTimes {
 public:
  explicit WorkTimes(const Timeline& timeline);
  // The time of a computation of this name and work on the device of a rank. Above 0.
  double seconds(int rank, const std::string& name, const Work& work) const;
  // Median of the absolute relative errors of the fit for this name; 0 in virtual time.
  double fit_error(const std::string& name) const;
  // The device of a rank: the recorded one, or the one that is fitted to vector operations, else to
  // steps. Null: the record states no work.
  const DeviceProfile* profile(int rank) const;

 private:
  void take_profiles(const Timeline& timeline);
  void fit(const Timeline& timeline);

  std::vector<DeviceProfile> by_rank_;     // empty: fitted
  Precision precision_ = Precision::fp32;  // of the recorded steps
  double vector_scale_ = 1;                // charged work per stated one of vector operations
  bool given_steps_ = false;               // the charge gives the times of steps, not their work
  struct Fitted {
    DeviceProfile profile;
    double error = 0;
  };
  std::map<std::string, Fitted> fitted_;
};

}  // namespace hetsgd
