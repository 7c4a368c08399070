// The options of the MLP and of the linear model.
#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "model/mlp.hpp"

namespace hetsgd {

void MlpOptions::declare(OptionSet& set) {
  set.add("hidden", hidden, "units of each hidden layer, comma-separated").unit("units");
  labels.declare(set);
  declare_init(set);
}

void MlpOptions::declare_init(OptionSet& set) {
  set.add_choice("init", init,
                 {{"fans", InitialLaw::fans},
                  {"fan_in", InitialLaw::fan_in},
                  {"cpu_gpu_sgd", InitialLaw::cpu_gpu_sgd}},
                 "standard deviation of a layer's initial weights, f = fan_in + fan_out: "
                 "2 / sqrt(f), 1 / sqrt(fan_in), or sqrt(2 s / f) with s = floor(sqrt(f of layer "
                 "0)) + 1, the law of a program of Adaptive SGD's authors");
  set.add("init_std", init_std,
          "standard deviation of the initial weights of all layers; auto: by --init")
      .above(0)
      .or_zero();
}

void MlpOptions::validate_init(InitialLaw usual) const {
  if (!init_std || init == usual) return;
  throw with_hint(
      usage_error("--init-std: found {} beside --init, which gives each layer its own", *init_std),
      "leave out one of the two");
}

double MlpOptions::initial_std(const std::vector<std::uint64_t>& units, std::size_t layer) const {
  if (init_std) return *init_std;
  const auto fans = [&](std::size_t i) {
    return static_cast<double>(units[i]) + static_cast<double>(units[i + 1]);
  };
  switch (init) {
    case InitialLaw::fans:
      break;
    case InitialLaw::fan_in:
      return 1 / std::sqrt(std::max(1.0, static_cast<double>(units[layer])));
    case InitialLaw::cpu_gpu_sgd:
      return std::sqrt(2 * (std::floor(std::sqrt(fans(0))) + 1) / fans(layer));
  }
  return 2 / std::sqrt(fans(layer));
}

void MlpOptions::validate() const {
  validate_init();
  labels.validate();
  if (hidden.empty()) {
    throw with_hint(usage_error("--hidden: found no layer, expected at least one for --model mlp"),
                    "use --model linear for a model without hidden layers");
  }
  if (std::ranges::find(hidden, 0U) != hidden.end()) {
    throw usage_error("--hidden: found 0, expected at least one unit per layer");
  }
}

}  // namespace hetsgd
