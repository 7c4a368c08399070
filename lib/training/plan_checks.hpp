// What can be wrong with a run before anything is loaded: a user should not wait for the data of a
// run that cannot be. What one option alone can have wrong is its range; what options of one group
// have against each other is TrainOptions::validate(); what needs the number of workers, the
// devices or the algorithm is here.
#pragma once

#include <string>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "model/registry.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// Options that do not go with the number of workers, the devices or the algorithm. `devices` as
// split_devices() gives them. Errors: usage. Algorithm::check() comes last, so that it may rely on
// the rest.
void check_plan(const TrainOptions& options, const OptionSet& set, const Plan& plan,
                const std::vector<std::string>& devices, const AlgorithmInfo& info,
                const Algorithm& algorithm);

// What sharded tables ask of the model: it has a table, whose updates no norm of all gradients
// scales. Errors: usage.
void check_sharded(const ModelInfo& info, const Model& model, const OptimizerOptions& optimizer);

// A model of sparse features for data with fields, images or sequences, or the other way round; an
// augmentation of what is no image, an order by lengths of what is no sequence. Errors: usage,
// naming the models that read such data.
void check_model_reads(const ModelInfo& info, const Dataset& train, const TrainOptions& options);

// After the data's shape is known, and before the first vector is allocated: a layout may be larger
// than any address, so it is judged by its size as a real number (Layout::real_size).
// A model that the machine cannot hold: its initial parameters and one replica. `machine_bytes`:
// core/host.hpp. Errors: usage, naming what it needs and what there is.
void check_model_fits(const ModelInfo& info, const Layout& layout, double machine_bytes);

}  // namespace hetsgd
