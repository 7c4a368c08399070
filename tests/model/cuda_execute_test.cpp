// Plans carried out on a GPU: the bits are those of unlimited memory, and close to a core's.
// Offloads and fetches run beside the kernels.

#include "carried_out.hpp"
#include "linalg/cuda/cuda_device.hpp"
#include "memory/minimum.hpp"
#include "support/gpu.hpp"

namespace hetsgd {
namespace {

BasicDevice<float>& gpu_device() {
  static const auto device = make_cuda_device<float>(0);
  return *device;
}

class CudaExecution : public ::testing::TestWithParam<ExecutedCase> {};
INSTANTIATE_TEST_SUITE_P(Memory, CudaExecution, ::testing::ValuesIn(executed_cases()),
                         [](const auto& each) { return each.param.name; });

TEST_P(CudaExecution, IsCloseToACoreAndTheSameUnderEveryPlan) {
  const Planned net(GetParam().graph(),
                    {.batch = GetParam().batch, .needs = BackwardNeeds::minimal});
  const auto w = some_parameters<float>(*net.graph);
  const MemoryPlan without_end = plan_without_reuse(net.training);
  const auto core = carry_out_on(*make_cpu_device<float>(1), net.training, without_end, false, w);
  const auto expected = carry_out_on(gpu_device(), net.training, without_end, false, w);
  EXPECT_NEAR(expected.loss, core.loss, 1e-5 * core.loss);
  double largest = 0;
  for (const float each : core.gradient) largest = std::max(largest, std::abs(double{each}));
  for (std::size_t i = 0; i < w.size(); ++i) {
    ASSERT_NEAR(expected.gradient[i], core.gradient[i], 1e-4 * largest) << "parameter " << i;
  }
  bool moved = false;
  for (const Policy* policy : all_policies()) {
    const auto minimum = minimum_capacity(*policy, net.request());
    ASSERT_TRUE(minimum.has_value()) << policy->name();
    const MemoryPlan plan = net.plan(*policy, *minimum);
    ASSERT_TRUE(plan.fits());
    moved = moved || std::ranges::any_of(plan.instructions, [](const Instruction& one) {
              return one.kind == InstructionKind::fetch;
            });
    EXPECT_EQ(carry_out_on(gpu_device(), net.training, plan, false, w), expected) << policy->name();
  }
  EXPECT_TRUE(moved);
}

// The poison is written and looked for on the GPU.
TEST(CudaPoison, IsNotFoundInARightPlanAndFoundInAWrongOne) {
  const Planned net(named("lenet-5"), {.batch = 2});
  const auto w = some_parameters<float>(*net.graph);
  const auto expected =
      carry_out_on(gpu_device(), net.training, plan_without_reuse(net.training), false, w);
  MemoryPlan plan = net.plan(liveness_policy());
  EXPECT_EQ(carry_out_on(gpu_device(), net.training, plan, true, w), expected);
  const auto first = std::ranges::find_if(plan.instructions, [](const Instruction& one) {
    return one.kind == InstructionKind::release;
  });
  const auto before =
      std::find_if(std::make_reverse_iterator(first), plan.instructions.rend(),
                   [](const Instruction& one) { return one.kind == InstructionKind::compute; });
  std::rotate(before.base() - 1, first, first + 1);
  EXPECT_THROW(carry_out_on(gpu_device(), net.training, plan, true, w), CheckFailure);
}

}  // namespace
}  // namespace hetsgd
