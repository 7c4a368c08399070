// The options of the MLP and of the linear model.
#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "model/mlp.hpp"

namespace hetsgd {

void MlpOptions::declare(OptionSet& set) {
  set.add("hidden", hidden, "Units of each hidden layer, separated by commas.").unit("units");
  labels.declare(set);
  declare_init(set);
}

void MlpOptions::declare_init(OptionSet& set) {
  set.add_choice("init", init,
                 {{"fans", InitialLaw::fans},
                  {"fan_in", InitialLaw::fan_in},
                  {"cpu_gpu_sgd", InitialLaw::cpu_gpu_sgd}},
                 "Law of the standard deviation of each layer's initial weights, where f = fan_in "
                 "+ fan_out. fans: 2 / sqrt(f); fan_in: 1 / sqrt(fan_in); cpu_gpu_sgd, the law of "
                 "a program of Adaptive SGD's authors: sqrt(2 s / f) with s = floor(sqrt(f of "
                 "layer 0)) + 1.");
  set.add("init_std", init_std,
          "Standard deviation of the initial weights of all layers. auto: the law of --init.")
      .above(0)
      .or_zero();
}

void MlpOptions::validate_init(InitialLaw usual) const {
  if (!init_std || init == usual) return;
  refuse("--init-std", fmt::format("{} beside --init", *init_std), "one of the two",
         "--init gives each layer its own standard deviation");
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
    refuse("--hidden", "no layer", "at least one for --model mlp",
           "--model linear has no hidden layers");
  }
  if (std::ranges::find(hidden, 0U) != hidden.end()) {
    refuse("--hidden", "0", "at least one unit per layer");
  }
}

}  // namespace hetsgd
