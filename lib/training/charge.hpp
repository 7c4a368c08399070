// --charge: lets the simulated clock charge the work and bytes of a full-size data set and model
// (paper 000, table 1) while the mathematics runs on scaled data, so that compute and communication
// keep the paper's ratio.
//
//                      real (scaled data)        charged
//   step               b samples, z nonzeros     full model's work at b, z * nonzeros_per_real
//   message, merge     n parameters              n * parameter_ratio
//
// `lstm-video` charges the recurrent model of paper 004 (5.5.2.3) instead: its parameters in
// messages, and for a step the time of a batch of videos, whose lengths differ, whatever the
// device.
//
// Nothing else changes: batches, updates, results and the number of messages are those of the
// scaled run. Time to accuracy is therefore that of the scaled task at the pace of the full-size
// one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cluster/cluster.hpp"
#include "cluster/profile.hpp"
#include "data/dataset.hpp"
#include "model/registry.hpp"

namespace hetsgd {

// Const once made. The full-size model is never trained: it is asked for its work and its layout,
// so its constructor must not allocate its parameters.
struct Charge {
  std::string preset;
  std::shared_ptr<const Model> model;  // full-size, with the run's options
  double nonzeros_per_real = 1;  // charged feature nonzeros per real one: a batch of b samples is
                                 // charged b * 76 on average
  double labels_per_real = 1;
  double parameter_ratio =
      1;  // charged parameters per real one: bytes of messages, work of vector operations
  double parameters = 0;  // of the full-size model
  // Of an iteration of a worker, in place of the time of the model's work; empty: that.
  std::function<Seconds(int rank, std::uint64_t iteration)> step_time = nullptr;
};

inline constexpr const char* kVideoCharge = "lstm-video";
inline constexpr double kVideoParameters = 34'663'525;  // lstm 2048 on 2048, fc 512, fc 101

// Time of a batch of 32 clips: 4.5 ms for each step of its longest clip, whose number is lognormal
// with median 230 and sigma 0.573, from 35 to 1,776. So the mean is 1.219 s and the deviation 0.75
// s, where figure 2.9b of paper 004 has 1.219 and 0.76. A pure function of its arguments: the same
// for all algorithms of a seed.
Seconds video_batch_time(std::uint64_t seed, int rank, std::uint64_t iteration);

// The preset's averages per sample over those of `data`, whose rows are the whole training set also
// where this process has only a part of it. The data have nonzeros and labels.
// Errors: usage; an unknown preset, with the known ones.
Charge make_charge(const std::string& preset, const Dataset& data, const ModelFactory& factory,
                   const Model& real, std::uint64_t seed);
// What the simulated cluster has to know of it.
void charge_cluster(const Charge& charge, ClusterOptions& options);
// The mean time of an iteration whose work takes `of_work`.
Seconds mean_step(const std::optional<Charge>& charge, Seconds of_work);
// As the result shows it: preset, shape of the charged model, and the three ratios.
nlohmann::json to_json(const Charge& charge);

// One pass over n parameters on a host: a replica is read and added to the sum of several.
Seconds host_pass(const DeviceProfile& host, double n);

}  // namespace hetsgd
