// Policy `liveness`: a tensor has memory from its first to its last use, best fit, and stays on the
// device. Source: SuperNeurons (PPoPP 2018), section 3.2.
#include "memory/policy.hpp"

namespace hetsgd {
namespace {

class LivenessPolicy final : public Policy {
 public:
  std::string name() const override { return "liveness"; }
  std::string summary() const override { return "tensors from first to last use, none moved"; }
};

}  // namespace

const Policy& liveness_policy() {
  static const LivenessPolicy kPolicy;
  return kPolicy;
}

}  // namespace hetsgd
