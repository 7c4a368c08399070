// --charge: lets the simulated clock charge the work and bytes of a full-size data set and model
// (Adaptive SGD, Ma et al. 2021, table 1) while the mathematics runs on scaled data, so that
// compute and communication keep the paper's ratio.
//
//                      real (scaled data)        charged
//   step               b samples, z nonzeros     full model's work at b, z * nonzeros_per_real
//   message, merge     n parameters              n * parameter_ratio
//
// Click data grow from F fields and C dense columns to the preset's fields, with the same options.
// Lookups, rows and their messages are scaled by F_full / F, parameters by the layout.
//
// A fitted charge (sven-deepfm, or a JSON file) was fitted to measurements, which its `source`
// names; a preset is derived from a shape. It sets the seconds of each stage of training with
// sharded tables. It also sets the bytes of each exchange of rows and the parameters of the dense
// part, whatever the real model.
//
// A network (resnet-50, vgg-16-cifar?classes=10, or its file) is charged whatever data and model
// are real. A step is charged the work of the network's nodes on as many samples as the batch has.
// With --charge-batch, a batch of b_max samples counts as so many. Messages are charged the
// network's parameters.
//
// `lstm-video` is the recurrent model of Yang 2022 (section 5.5.2.3). Its step is charged the time
// of a batch of videos of different lengths, whatever the device. If the training data are
// sequences, the time is that of the batch's own steps, so it depends on --order and --lengths.
// `lstm-video?steps=186` is a network like the others.
//
// `transformer-wmt` is the Transformer of Yang 2022 (transformer_wmt.hpp). Its step is charged the
// work of a batch of sentences of one length, on each worker's own device. The length is drawn, or
// it is that of the batch's own longest row if the training data are rows of tokens.
//
// A file with `nodes` is a network, one with `stages_s` a fitted charge.
//
// Nothing else changes: batches, updates, results and the number of messages are those of the
// scaled run. Time to accuracy is therefore that of the scaled task at the speed of the full-size
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
#include "memory/plan.hpp"
#include "model/registry.hpp"
#include "training/simulation/transformer_wmt.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// A charge that was fitted to measurements, built in or from a file. Throws Error(data) naming the
// key if a file is wrong.
struct FittedCharge {
  std::string name, source;
  double parameters = 0;  // of the dense part
  double rows_bytes = 0;  // per rank and direction of one exchange of rows, its own part included
  StageTimes stages;      // of one iteration; exchanges and the all_reduce follow from the network
  // Seconds of the dense part, forward and backward.
  double step_s() const { return (stages[Stage::fp] + stages[Stage::bp]).count(); }
};

// Constant after construction. The full-size model is never trained. It only gives its work and its
// layout, so its constructor must not allocate its parameters.
struct Charge {
  // The JSON in the result: the name, the shape of the charged model and the ratios, or the fitted
  // values.
  nlohmann::json facts;
  std::shared_ptr<const Model> model;  // full-size, with the run's options; or a network
  double samples_per_real = 1;         // for a network (--charge-batch)
  double nonzeros_per_real = 1;  // charged feature nonzeros per real one: a batch of b samples is
                                 // charged b * 76 on average
  double labels_per_real = 1;
  double lookups_per_real = 1;  // for click data; scales rows of sharded tables, too
  double parameter_ratio =
      1;  // charged parameters per real one: bytes of messages, work of vector operations
  std::optional<FittedCharge> fitted = {};  // then `model` is null
  // The time of an iteration of a worker, which replaces that of the model's work; empty: it does
  // not.
  std::function<Seconds(int worker, std::uint64_t iteration)> step_time = nullptr;
  // transformer-wmt; null: another charge.
  std::shared_ptr<const TransformerWmt> sentences = nullptr;
  // lstm-video with sequences as data, transformer-wmt with rows of tokens: charged steps per real
  // one, so that the data's mean length stands for UCF101's or WMT17's. 0 in all other cases.
  double steps_per_real = 0;
};

// Time of a batch of 32 clips: 4.5 ms for each step of its longest clip. The number of steps is
// lognormal with median 230 and sigma 0.573, clamped to 35 to 1,776. So the mean is 1.219 s and the
// standard deviation 0.75 s; figure 2.9b of Yang 2022 has 1.219 and 0.76. A pure function of its
// arguments, so all algorithms of a seed get the same times.
Seconds video_batch_time(std::uint64_t seed, int rank, std::uint64_t iteration);

// Makes the charge of the option --charge. The ratios are a preset's averages per sample over those
// of `data`, for sparse data of nonzeros and labels. They use the totals of the whole training set,
// also if this process has only a part of it. `real` is the model in the workers' replicas; with
// sharded tables, the dense part.
//
// Throws Error(usage) for an unknown name (listing the known ones), or a preset for the other kind
// of data. Also throws Error(usage) for a fitted charge without sharded tables, a network with
// them, --charge-batch without a network, or batch=tokens with rows of tokens. Throws Error(data)
// for a file that is neither a network nor a fitted charge.
Charge make_charge(const TrainOptions& options, const Dataset& data, const Model& real);
// Whether --charge names a network, built in or in a file, or transformer-wmt. Throws what reading
// the file throws.
bool is_network_charge(const std::string& name_or_path);

// The full-size shape that a real batch stands for.
BatchShape charged_shape(const Charge& charge, const BatchShape& batch);
// The time of a step on such a batch if it does not follow from work. It comes from a fitted
// charge, or from the steps of a batch of sequences, which `real` pads or packs. For drawn
// sentences it is the mean. Empty otherwise.
std::optional<Work> given_step(const Charge& charge, const Model& real, const BatchShape& batch);
// Sets what a simulated cluster charges: bytes of messages, work of vector operations, and given
// times of steps. The cluster's profiles, seed and precision are set already.
void charge_cluster(const Charge& charge, ClusterOptions& options);
// The mean time of an iteration whose work takes `of_work`, unless the charge gives the time.
Seconds mean_step(const Charge* charge, Seconds of_work);

// Time of one pass over n parameters on a host, which reads a replica and adds it to a sum.
Seconds host_pass(const DeviceProfile& host, double n);

}  // namespace hetsgd
