// Policy `sequential`: vdnn-all on one server, without prefetch: the times of computing and of
// transfers add up. The baseline of paper 004, figure 4.6.
#include "memory/policy.hpp"

namespace hetsgd {
namespace {

class SequentialPolicy final : public Policy {
 public:
  std::string name() const override { return "sequential"; }
  std::string summary() const override { return "vdnn-all on one stream, no prefetch"; }
  bool moves(const TrainingStep&, const StepTensor& tensor) const override {
    return is_movable_map(tensor);
  }
  OffloadTrigger trigger() const override { return OffloadTrigger::last_consumer; }
  Overlap overlap() const override { return Overlap::none; }
};

}  // namespace

const Policy& sequential_policy() {
  static const SequentialPolicy kPolicy;
  return kPolicy;
}

}  // namespace hetsgd
