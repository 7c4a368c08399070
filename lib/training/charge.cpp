#include "training/charge.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "data/generate.hpp"

namespace hetsgd {

Charge make_charge(const std::string& preset, const Dataset& data, const ModelFactory& factory,
                   const Model& real) {
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
  charge.parameter_ratio =
      static_cast<double>(charge.model->parameters()) / static_cast<double>(real.parameters());
  return charge;
}

nlohmann::json to_json(const Charge& charge) {
  return {{"preset", charge.preset},
          {"features", charge.model->data().feature_count},
          {"labels", charge.model->data().label_count},
          {"parameters", charge.model->parameters()},
          {"nonzeros_per_real", charge.nonzeros_per_real},
          {"labels_per_real", charge.labels_per_real},
          {"parameter_ratio", charge.parameter_ratio}};
}

Seconds host_pass(const DeviceProfile& host, double n) {
  return host.seconds({.operations = n, .bytes = n * sizeof(float), .launches = 1});
}

}  // namespace hetsgd
