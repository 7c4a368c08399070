// Policy `none`: every feature map, gradient and mask has memory of its own for the whole
// iteration.

#include "memory/policy.hpp"

namespace hetsgd {
namespace {

class NonePolicy final : public Policy {
 public:
  std::string name() const override { return "none"; }
  std::string summary() const override { return "every tensor for the whole iteration"; }
  std::optional<std::uint64_t> total_bytes(const PlanRequest& request) const override {
    return request.training->tensor_bytes();
  }
};

}  // namespace

const Policy& none_policy() {
  static const NonePolicy kPolicy;
  return kPolicy;
}

}  // namespace hetsgd
