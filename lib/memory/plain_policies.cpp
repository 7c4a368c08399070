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

// Policy `none`: every feature map, gradient and mask has memory of its own for the whole
// iteration.

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

// Policy `sequential`: vdnn-all on one server, without prefetch: the times of computing and of
// transfers add up. The baseline of paper 004, figure 4.6.

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
