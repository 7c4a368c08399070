// Algorithms learn on both clusters, with 1 to 8 workers (expect_learns_everywhere).

#include "support/compare.hpp"

namespace hetsgd::test {
namespace {

struct Learning {
  std::string name, algorithm;
  Settings more = {};
  double p1 = 0.3;
};

class EveryCluster : public testing::TestWithParam<Learning> {};

TEST_P(EveryCluster, Learns) {
  const auto& [name, algorithm, more, p1] = GetParam();
  const Settings base =
      tiny(algorithm, "--batch-size 16 --max-samples 24000 --evaluate-every 4000");
  expect_learns_everywhere(with(base, more), p1);
}

const Settings kServer = "--learning-rate 0.3 --max-samples 16000";
const Settings kLate = "--straggler kind=uniform,min=0ms,max=1ms";
const Settings kPartial = with(kLate, "--batch-size 32 --learning-rate 1 --evaluate-every 640");
const Settings kAdasumRuns =
    "--batch-size 32 --evaluate-every 640 --per-worker-batch split --reduce adasum";

const std::vector<Learning> kLearning = {
    {"adasum", "ssgd", kAdasumRuns},
    {"adasum_linear", "ssgd", with(kAdasumRuns, "--adasum-shape linear --optimizer momentum")},
    {"asgd", "asgd", kServer},
    {"dc_asgd", "dc-asgd", kServer},
    {"dc_asgd_adaptive", "dc-asgd", with(kServer, "--dc adaptive --dc-backup server")},
    {"ssp_0", "ssp", with(with(kServer, kLate), "--staleness 0")},
    {"ssp_3", "ssp", with(with(kServer, kLate), "--staleness 3")},
    {"esync", "esync"},
    {"esync_server", "esync", "--aggregate server"},
    {"esync_server_delayed", "esync", "--aggregate server --ack delayed"},
    {"esync_delayed", "esync", "--ack delayed --weight steps"},
    {"esync_momentum", "esync",
     with(kLate, "--ack delayed --optimizer momentum --learning-rate 0.1")},
    {"adpsgd", "adpsgd", with(kLate, "--batch-size 32 --max-samples 12000 --evaluate-every 640")},
    {"eager_solo", "eager-solo", kPartial},
    {"eager_majority", "eager-majority", kPartial},
    {"rna", "rna", kPartial},
    {"rna_local", "rna", with(kPartial, "--local-training --ahead 2 --trigger any")},
    {"rna_groups", "rna",
     with(kPartial, "--hierarchical --group-after 3 --straggler kind=constant,worker=0,factor=6")},
    {"sma", "sma"},
    {"sma_hierarchical", "sma", "--learners-per-device 2 --sma hierarchical", 0.25},
    {"sma_tuned", "sma",
     with(
         kLate,
         "--learners-per-device auto --profile titan-x-pascal --tuner-every 3 --max-samples 36000"),
     0.25},
    {"easgd", "easgd"},
    {"easgd_tau", "easgd", "--tau 4 --overlap false"},
    {"local_sgd", "local-sgd"},
    {"local_sgd_outer", "local-sgd",
     with(kLate, "--outer-optimizer nesterov --outer-learning-rate 0.7 --local-steps 8")},
};

INSTANTIATE_TEST_SUITE_P(Every, EveryCluster, testing::ValuesIn(kLearning),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace hetsgd::test
