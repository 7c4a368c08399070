#include <algorithm>

#include "training/training.hpp"

namespace hetsgd {

double Progress::share_done() const {
  const double by_samples =
      max_samples ? static_cast<double>(samples_count) / static_cast<double>(max_samples) : 0;
  const double by_time = max_time.count() > 0 ? time / max_time : 0;
  return std::clamp(std::max(by_samples, by_time), 0.0, 1.0);
}

double Progress::samples_per_s() const {
  return time.count() > 0 ? static_cast<double>(samples_count) / time.count() : 0;
}

std::optional<Seconds> Progress::remaining() const {
  const double share = share_done();
  if (share <= 0) return std::nullopt;
  const double under_way = measuring_s > 0 ? std::max(0.0, measurement_s - measuring_s) : 0;
  return Seconds(host_s * (1 - share) / share + under_way + measurements_left * measurement_s);
}

}  // namespace hetsgd
