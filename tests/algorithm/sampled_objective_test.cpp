// --objective sampled and hashed under every algorithm: identities, learning, refusals.

#include "runs.hpp"

namespace hetsgd::test {
namespace {

Settings sampled(const std::string& algorithm, const char* negatives) {
  return with(tiny_steps(algorithm), "--objective sampled --negatives {}", negatives);
}

// Only the rows of drawn labels are read and moved, which hogwild's snapshot must know.
TEST(SampledObjectiveRuns, HogwildWithOneWorkerIsSgdToTheBit) {
  for (const char* cluster : {"sim", "threads"}) {
    const Settings base = with(sampled("sgd", "12"), {{"cluster", cluster}});
    expect_same_bits(run_training(base), run_with(base, "--algorithm hogwild"));
  }
}

// Learns from 12 of the labels, chosen by `objective`.
void expect_learns(const AlgorithmInfo& info, const char* objective) {
  SCOPED_TRACE(info.name + " " + objective);
  const Record run = run_with(sampled(info.name, "12"),
                              "--objective {} --hash-codes 2 --hash-tables 8 --workers {} "
                              "--learning-rate 0.2 --max-samples 12800 --record-steps false",
                              objective, std::min(2, info.max_workers));
  EXPECT_GT(metric_of(run.curve.back(), "p1").value(), metric_of(run.curve.front(), "p1").value());
}

TEST(SampledObjectiveRuns, EveryAlgorithmLearns) {
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    if (!algorithm.info.one_hidden_layer_only.empty()) continue;
    if (!algorithm.info.sharded_tables_only.empty()) continue;
    expect_learns(algorithm.info, "sampled");
    const bool shares_a_model =
        algorithm.info.name == "hogwild" || algorithm.info.name == "hogbatch";
    if (!shares_a_model) expect_learns(algorithm.info, "hashed");
  }
}

TEST(SampledObjectiveRuns, RefusesWhatItCannotDo) {
  for (const char* algorithm : {"hogwild", "hogbatch"}) {
    expect_refused(with(sampled(algorithm, "12"), {{"objective", "hashed"}}),
                   "--objective: found hashed, expected full or sampled");
  }
  expect_refused(with(tiny_steps("sgd"), {{"objective", "hashed"}, {"hidden", "4"}, {"bin", "5"}}),
                 "--bin: found 5, expected at most the 4 units");
  expect_refused(with(sampled("sgd", "12"), {{"cluster", "threads"}, {"devices", "cuda:0"}}),
                 "--devices: found cuda:0, expected CPUs: --objective sampled");
}

}  // namespace
}  // namespace hetsgd::test
