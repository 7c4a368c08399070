#include "training/charge.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/generate.hpp"

namespace hetsgd {

Seconds video_batch_time(std::uint64_t seed, int rank, std::uint64_t iteration) {
  constexpr double kMedianSteps = 230, kSigma = 0.573, kFewest = 35, kMost = 1776, kStep = 4.5e-3;
  RandomStream stream(seed, Purpose::sequence_length, iteration, static_cast<std::uint32_t>(rank));
  const double steps = std::round(stream.lognormal(std::log(kMedianSteps), kSigma));
  return Seconds(kStep * std::clamp(steps, kFewest, kMost));
}

Charge make_charge(const std::string& preset, const Dataset& data, const ModelFactory& factory,
                   const Model& real, std::uint64_t seed) {
  if (preset == kVideoCharge) {
    Charge charge{.preset = preset, .model = factory.make(real.data())};
    charge.parameters = kVideoParameters;
    charge.parameter_ratio = charge.parameters / static_cast<double>(real.parameters());
    charge.step_time = [seed](int rank, std::uint64_t iteration) {
      return video_batch_time(seed, rank, iteration);
    };
    return charge;
  }
  const GeneratorOptions full = generator_preset(preset);
  if (data.fields.count() > 0) {
    throw usage_error(
        "--charge: found {}, a data set of sparse features, and training data with {} "
        "fields of categories",
        preset, data.fields.count());
  }
  Charge charge{.preset = preset,
                .model = factory.make({full.features, full.labels, real.data().task})};
  const DatasetTotals totals = data.totals();
  const auto rows = static_cast<double>(totals.rows);
  if (totals.nonzeros == 0 || totals.labels == 0) {
    throw data_error("--charge: the training data have no {}, expected some to scale up",
                     totals.nonzeros == 0 ? "features" : "labels");
  }
  charge.nonzeros_per_real = full.nonzeros_per_sample * rows / static_cast<double>(totals.nonzeros);
  charge.labels_per_real = full.labels_per_sample * rows / static_cast<double>(totals.labels);
  charge.parameters = static_cast<double>(charge.model->parameters());
  charge.parameter_ratio = charge.parameters / static_cast<double>(real.parameters());
  return charge;
}

void charge_cluster(const Charge& charge, ClusterOptions& options) {
  options.payload_scale = options.work_scale = charge.parameter_ratio;
  options.step_time = charge.step_time;
}

Seconds mean_step(const std::optional<Charge>& charge, Seconds of_work) {
  constexpr Seconds kVideoMean{1.219};
  return charge && charge->step_time ? kVideoMean : of_work;
}

nlohmann::json to_json(const Charge& charge) {
  return {{"preset", charge.preset},
          {"features", charge.model->data().feature_count},
          {"labels", charge.model->data().label_count},
          {"parameters", static_cast<std::uint64_t>(charge.parameters)},
          {"nonzeros_per_real", charge.nonzeros_per_real},
          {"labels_per_real", charge.labels_per_real},
          {"parameter_ratio", charge.parameter_ratio}};
}

Seconds host_pass(const DeviceProfile& host, double n) {
  return host.seconds({.operations = n, .bytes = n * sizeof(float), .launches = 1});
}

}  // namespace hetsgd
