// Replicas that learn at the same time have the bits of learning one after the other, on as many
// cores each.
#include "linalg/streams.hpp"

#include "model/problems.hpp"

namespace hetsgd::test {
namespace {

class StreamsOfEveryKind : public EveryKind {};

INSTANTIATE_TEST_SUITE_P(Model, StreamsOfEveryKind, ::testing::ValuesIn(all_kinds()), kind_name);

TEST_P(StreamsOfEveryKind, LearnAsOneAfterAnother) {
  for (const auto& [cores, replicas] :
       std::vector<std::pair<int, std::size_t>>{{2, 2}, {2, 3}, {4, 2}}) {
    const int share = cores / static_cast<int>(std::min<std::size_t>(2, replicas));
    Problem<float> p(GetParam(), 50, 700, share);
    const auto whole = make_cpu_device<float>(cores);
    const auto streams = whole->streams(replicas);
    std::vector<std::unique_ptr<ModelContext>> contexts;
    for (std::size_t s = 0; s < streams->count(); ++s) {
      contexts.push_back(p.model->make_context(streams->device(s)));
    }
    std::vector<std::vector<float>> alone(replicas, p.w), together(replicas, p.w);
    std::vector<double> loss(replicas), sum(replicas);
    for (std::size_t round = 0; round < 4; ++round) {
      const auto batch = [&](std::size_t j) { return batch_of(*p.data, 3 * round + j, 20 + j); };
      std::vector<double> expected;
      for (std::size_t j = 0; j < replicas; ++j) {
        expected.push_back(p.model->step(*p.context, batch(j), 0.2F, alone[j].data()));
      }
      const auto context = [&](std::size_t j) -> ModelContext& {
        return *contexts[j % contexts.size()];
      };
      streams->run(
          replicas,
          [&](std::size_t j) {
            sum[j] = p.model->start_step(context(j), batch(j), 0.2F, together[j].data());
          },
          [&](std::size_t j) { loss[j] = p.model->finish(context(j), batch(j), sum[j]); });
      EXPECT_EQ(loss, expected);
      EXPECT_EQ(together, alone);
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
