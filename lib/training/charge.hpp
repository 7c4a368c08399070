// --charge: lets the simulated clock charge the work and bytes of a full-size data set and model
// (paper 000, table 1) while the mathematics runs on scaled data, so that compute and communication
// keep the paper's ratio.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/dataset.hpp"
#include "model/model.hpp"

namespace hetsgd {

struct Charge {
  std::string preset;
  ModelShape shape;              // the full-size model with the run's hidden layers
  double nonzeros_per_real = 1;  // charged feature nonzeros per real one: a batch of b samples is
                                 // charged b * 76 on average
  double labels_per_real = 1;
  double parameter_ratio =
      1;  // charged parameters per real one: bytes of messages, work of vector operations
};

// Errors: usage; an unknown preset, with the known ones.
Charge make_charge(const std::string& preset, const Dataset& data, const ModelShape& real);
nlohmann::json to_json(const Charge& charge);

}  // namespace hetsgd
