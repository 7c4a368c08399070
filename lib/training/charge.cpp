#include "training/charge.hpp"

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "data/generate.hpp"

namespace hetsgd {

Charge make_charge(const std::string& preset, const Dataset& data, const ModelShape& real) {
  const GeneratorOptions full = generator_preset(preset);
  Charge charge{.preset = preset, .shape = real};
  charge.shape.feature_count = full.features;
  charge.shape.label_count = full.labels;
  const DatasetTotals totals = data.totals();
  const auto rows = static_cast<double>(totals.rows);
  charge.nonzeros_per_real = full.nonzeros_per_sample * rows / static_cast<double>(totals.nonzeros);
  charge.labels_per_real = full.labels_per_sample * rows / static_cast<double>(totals.labels);
  charge.parameter_ratio =
      static_cast<double>(charge.shape.parameters()) / static_cast<double>(real.parameters());
  return charge;
}

nlohmann::json to_json(const Charge& charge) {
  return {{"preset", charge.preset},
          {"features", charge.shape.feature_count},
          {"labels", charge.shape.label_count},
          {"parameters", charge.shape.parameters()},
          {"nonzeros_per_real", charge.nonzeros_per_real},
          {"labels_per_real", charge.labels_per_real},
          {"parameter_ratio", charge.parameter_ratio}};
}

}  // namespace hetsgd
