// Golden timelines (support/timeline.hpp): a step takes 9 ms, 27 on the straggler, a message 10 ms.

#include "support/timeline.hpp"

namespace hetsgd::test {
namespace {

struct Golden {
  std::string name, algorithm;
  Settings more = {};
  int straggler = 1;
};

class Timelines : public testing::TestWithParam<Golden> {};

TEST_P(Timelines, IsTheGoldenOne) {
  const auto& [name, algorithm, more, straggler] = GetParam();
  const Settings base = with(timeline_settings(algorithm, straggler), "--max-samples 240");
  expect_golden(name, timeline(run_with(base, more)));
}

const Settings kSplitBatch = "--per-worker-batch split";
const Settings kLong = "--max-samples 720";

const std::vector<Golden> kGoldens = {
    {"sgd", "sgd", "--workers 1", 0},
    {"ssgd_mirrored", "ssgd", kSplitBatch},
    {"ssgd_central", "ssgd", with(kSplitBatch, "--storage central")},
    // Worker 1, the straggler, has its gradient after 27 ms, its update after 3 vector operations,
    // at 30, and sends it. Worker 0 folds it from 40 to 42 and sends half to worker 2, which has it
    // at 52. Products (1 ms) and their sum (10 ms) are done at 63, the combinations at 64. Worker 0
    // then has worker 2's half and sends the whole to worker 1, its own half to worker 2. Both have
    // it at 74 and end the iteration at 75, worker 0 at 65.
    {"ssgd_adasum", "ssgd", with(kSplitBatch, "--reduce adasum --orthogonality-every 0")},
    {"elastic", "elastic", with(kLong, "--mega-batch 15")},  // two of 5 steps per worker
    // The straggler takes fewer and, after the first merge, smaller batches.
    {"adaptive", "adaptive", with(kLong, "--mega-batch 15 --pert-threshold 1")},
    {"asgd", "asgd"},
    {"dc_asgd", "dc-asgd"},
    {"ssp", "ssp", "--staleness 1"},
    {"esync", "esync"},
    {"esync_delayed", "esync", "--ack delayed"},
    {"adpsgd", "adpsgd"},
    {"eager_solo", "eager-solo"},
    // Seed 5 draws workers 1 (the straggler, for whom all wait), 2, 2, 0.
    {"eager_majority", "eager-majority", "--seed 5"},
    {"rna", "rna"},
    {"rna_hierarchical", "rna", "--hierarchical --groups 0;2:1"},
    // One iteration without overlap: corrections and their sum 1 ms, the batch 9 (27 on the
    // straggler), so all arrive at 28 ms. all_reduce takes 40, replicas and z 1 ms: 69. With
    // overlap the all_reduce runs from 1 to 41 behind the batch, so 42 ms.
    {"sma", "sma", kLong},
    {"sma_no_overlap", "sma", with(kLong, "--overlap false")},
    // Two iterations in three are steps alone: 9 + 9 + (1 + 9) = 28 ms, on the straggler
    // 27 + 27 + 28 = 82; its all_reduce begins at 55 and ends at 95, replicas and z at 96.
    {"easgd", "easgd", with(kLong, "--tau 3")},
    // 5 steps of 9 ms (27 on the straggler, which ends at 135 ms), all_reduce 40, the mean 1, the
    // copy 1: 177 ms a round.
    {"local_sgd", "local-sgd", with(kLong, "--local-steps 5")},
    {"hogwild", "hogwild"},
    // Two CPUs and a GPU, whose link takes 1 us per byte.
    {"hogbatch", "hogbatch",
     fmt::format("--profile {} --cpu-batch-min 4 --cpu-batch-max 16 --gpu-batch-min 12",
                 HETSGD_TEST_DATA "/latency_only_profile.json*2," HETSGD_TEST_DATA
                                  "/host_link_profile.json")},
};

INSTANTIATE_TEST_SUITE_P(Every, Timelines, testing::ValuesIn(kGoldens),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hetsgd::test
