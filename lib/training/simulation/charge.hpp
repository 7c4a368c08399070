// --charge: lets the simulated clock charge the work and bytes of a full-size data set and model
// (paper 000, table 1) while the mathematics runs on scaled data, so that compute and communication
// keep the paper's ratio.
//
//                      real (scaled data)        charged
//   step               b samples, z nonzeros     full model's work at b, z * nonzeros_per_real
//   message, merge     n parameters              n * parameter_ratio
//
// Click data grow from F fields of C numbers to the preset's fields at the same options: lookups,
// rows and their messages times F_full / F, parameters by the layout.
//
// A fitted charge (sven-deepfm, or a JSON file) gives the stages of training with sharded tables
// their seconds, each exchange of rows its bytes and the dense part its parameters, whatever the real
// model; it was fitted to measurements, as its `source` says, where a preset is derived from a shape.
//
// A network (resnet-50, vgg-16-cifar?classes=10, or its file) is charged whatever data and model
// are real: for a step the work of its nodes at as many samples as the batch has, or for a batch of
// b_max at --charge-batch samples; in messages its parameters. `lstm-video`, the recurrent model of
// paper 004 (5.5.2.3), is charged for a step the time of a batch of videos, whose lengths differ,
// whatever the device; `lstm-video?steps=186` is a network as the others. Where the training data
// are sequences themselves, its time is that of the batch's own steps, and so follows --order and
// --lengths.
//
// A file with `nodes` is a network, one with `stages_s` a fitted charge.
//
// Nothing else changes: batches, updates, results and the number of messages are those of the
// scaled run. Time to accuracy is therefore that of the scaled task at the pace of the full-size
// one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "algorithm/stages.hpp"
#include "cluster/cluster.hpp"
#include "cluster/profile.hpp"
#include "data/dataset.hpp"
#include "memory/step_times.hpp"
#include "model/registry.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// Errors of files: data, naming the key.
struct FittedCharge {
  std::string name, source;
  double parameters = 0;  // of the dense part
  double rows_bytes = 0;  // of a rank in one exchange of rows, each way, its own part included
  StageTimes stages;      // of one iteration; exchanges and the all_reduce follow from the network
  // Of the dense part, forward and backward.
  double step_s() const { return (stages[Stage::fp] + stages[Stage::bp]).count(); }
};

// Const once made. The full-size model is never trained: it is asked for its work and its layout,
// so its constructor must not allocate its parameters.
struct Charge {
  // As the result shows it: what it is, the shape of the charged model and the ratios, or what was
  // fitted.
  nlohmann::json facts;
  std::shared_ptr<const Model> model;  // full-size, with the run's options; or a network
  double samples_per_real = 1;         // of a network (--charge-batch)
  double nonzeros_per_real = 1;  // charged feature nonzeros per real one: a batch of b samples is
                                 // charged b * 76 on average
  double labels_per_real = 1;
  double lookups_per_real = 1;  // of click data; also rows of sharded tables, and their messages
  double parameter_ratio =
      1;  // charged parameters per real one: bytes of messages, work of vector operations
  std::optional<FittedCharge> fitted = {};  // then `model` is null
  // Of an iteration of a worker, in place of the time of the model's work; empty: that.
  std::function<Seconds(int rank, std::uint64_t iteration)> step_time = nullptr;
  // lstm-video of data that are sequences: charged steps per real one, so that the data's mean
  // length stands for UCF101's; 0: anything else.
  double video_steps_per_real = 0;
};

// Time of a batch of 32 clips: 4.5 ms for each step of its longest clip, whose number is lognormal
// with median 230 and sigma 0.573, from 35 to 1,776. So the mean is 1.219 s and the deviation 0.75
// s, where figure 2.9b of paper 004 has 1.219 and 0.76. A pure function of its arguments: the same
// for all algorithms of a seed.
Seconds video_batch_time(std::uint64_t seed, int rank, std::uint64_t iteration);

// By --charge of the options. A preset's averages per sample over those of `data`, whose rows are
// the whole training set also where this process has only a part of it. Sparse data have nonzeros
// and labels. `real`: what the workers' replicas hold, of sharded tables the dense part.
// Errors: usage; an unknown name, with the known ones; a preset of the other kind of data; a fitted
// charge without sharded tables; a network with them; --charge-batch with anything else. Data: a
// file that is neither a network nor a fitted charge.
Charge make_charge(const TrainOptions& options, const Dataset& data, const Model& real);
// Whether --charge names a network, built in or in a file. Errors: of the file.
bool is_network_charge(const std::string& name_or_path);

// What a real batch stands for.
BatchShape charged_shape(const Charge& charge, const BatchShape& batch);
// The time of a step on such a batch where it is no matter of work: of a fitted charge, or by the
// steps of a batch of sequences, which `real` pads or packs. Else nothing.
std::optional<Work> given_step(const Charge& charge, const Model& real, const BatchShape& batch);
// What a simulated cluster charges by it: bytes of messages, work of vector operations, the times
// of steps that are given.
void charge_cluster(const Charge& charge, ClusterOptions& options);
// The mean time of an iteration whose work takes `of_work`.
Seconds mean_step(const std::optional<Charge>& charge, Seconds of_work);

// One pass over n parameters on a host: a replica is read and added to the sum of several.
Seconds host_pass(const DeviceProfile& host, double n);

}  // namespace hetsgd
