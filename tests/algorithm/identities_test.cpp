// The identities that must hold between algorithms, clusters and numbers of workers.

#include <cstring>

#include "runs.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test::identities {
namespace {

const Settings kIdentities = tiny_steps("sgd");
// Another model and its data, for any base.
const Settings kText =
    "--model gpt-micro?layers=1&width=16&block=8 --train "
    "generate:language?vocabulary=11&steps=8&rows_train=500&rows_test=60 --test "
    "generate:language?vocabulary=11&steps=8&rows_train=500&rows_test=60";
const Settings kMasked = with(kText, "--model bert-micro?layers=1&width=16&block=8");
// Rows of one to eight tokens, of which causal networks predict each.
const std::string kLineData =
    "generate:language?vocabulary=11&steps=8&lengths=lognormal&median=4&rows_train=500&rows_test="
    "60";
const Settings kLines = with(kText, "--train {0} --test {0}", kLineData);

// Two runs that are the same, to the bit, or up to rounding if `tolerance` is not 0.
struct Identity {
  std::string name;
  Settings base, one, other;
  double tolerance = 0;
};

class Pairs : public testing::TestWithParam<Identity> {};

TEST_P(Pairs, AreTheSame) {
  const auto& [name, base, one, other, tolerance] = GetParam();
  const Record a = run_with(base, one), b = run_with(base, other);
  if (tolerance == 0) return expect_same_bits(a, b);
  expect_close(step_losses(a), step_losses(b), tolerance);
}

const Settings kSsgd = "--algorithm ssgd --per-worker-batch full";
const Settings kAdasum = "--per-worker-batch split --reduce adasum --workers 4";
const Settings kThree = "--workers 3";
const Settings kFour = "--workers 4";
const Settings kSim = "--cluster sim", kThreads = "--cluster threads";
const Settings kLocal = tiny_steps("local-sgd", "--batch-size 16 --max-samples 2560");
const Settings kSma = tiny_steps("sma", "--batch-size 16 --max-samples 2560 --workers 4");
const Settings kEqual = {kEqualSteps};

Settings steps_of(const std::string& algorithm, const Settings& more = {}) {
  return tiny_steps(algorithm, more);
}

std::vector<Identity> identities() {
  std::vector<Identity> all = {
      // The server adds the gradients in rank order and applies the same rule.
      {"central_is_mirrored",
       steps_of("ssgd", with(kThree, "--optimizer momentum --momentum 0.5")),
       {},
       "--storage central"},
      // One worker: alpha = 1, u = sum(u), so both do K local steps and w' = w_1 + gamma (w - w_p).
      {"elastic_alone_is_adaptive",
       steps_of("elastic", "--mega-batch 5"),
       {},
       "--algorithm adaptive"},
      // gamma 0 and K = 1: mean_i (w - lr g_i) = w - lr mean_i g_i, ssgd with b_max per worker.
      {"elastic_every_step_is_ssgd", steps_of("elastic", with(kFour, "--max-samples 6400")),
       "--mega-batch 4 --gamma 0", kSsgd, 1e-5},
      {"adasum_alone_is_ssgd", steps_of("ssgd", "--per-worker-batch split"), {}, "--reduce adasum"},
      // Shared cores change when a step ends, not what it computes.
      {"host_cores_change_no_bit_of_ssgd",
       steps_of("ssgd", with(kEqual, kFour)),
       {},
       "--host-cores 2"},
      // Layers of a node on several workers stay whole.
      {"partitioned_layers_are_replicated",
       steps_of(
           "ssgd",
           with(kAdasum,
                "--node-size 2 --adasum-scope layer --optimizer momentum --learning-rate 0.05")),
       {},
       "--optimizer-state partitioned",
       1e-5},
      // One worker: w has not moved since its pull, w - w_bak = 0, whatever lambda.
      {"dc_asgd_alone_is_asgd", steps_of("dc-asgd"), "--lambda 7", "--algorithm asgd"},
      {"dc_asgd_adaptive_alone_is_asgd", steps_of("dc-asgd"), "--lambda 7 --dc adaptive",
       "--algorithm asgd"},
      // Momentum: every replica has the same state, because the background task makes every update.
      {"eager_is_ssgd_with_momentum",
       steps_of("eager-solo", with(kThree, "--optimizer momentum --momentum 0.5")),
       {},
       kSsgd},
      // One group by hand is no group.
      {"rna_of_one_group_is_flat",
       steps_of("rna", with(kEqual, kFour)),
       {},
       "--hierarchical --groups 0-3"},
      // All workers made as many steps: n_i / sum n = 1 / P, the same values in another order of
      // operations.
      {"esync_equal_steps_weigh_equally",
       steps_of("esync", with(kEqual, kFour)),
       {},
       "--weight steps"},
      // mean_i (w - lr g_i) = w - lr mean_i g_i.
      {"local_sgd_of_one_step_is_ssgd", with(kLocal, kFour), "--local-steps 1", kSsgd, 1e-5},
      // elastic without momentum merges once per mega-batch, 3 P batches here.
      {"local_sgd_is_elastic", with(kLocal, kThree), "--local-steps 3",
       "--algorithm elastic --mega-batch 9 --gamma 0", 1e-5},
      // x - eta (x - mean) with momentum 0 is the interpolation of outer sgd.
      {"outer_momentum_0_is_outer_sgd",
       with(kLocal, with(kThree, "--local-steps 4 --outer-learning-rate 0.7")),
       {},
       "--outer-optimizer nesterov --outer-momentum 0",
       1e-5},
      {"sma_alone_of_alpha_0_is_sgd", with(kSma, "--workers 1"), "--alpha 0", "--algorithm sgd",
       1e-12},
      // No worker ever waits.
      {"ssp_without_bound_is_asgd",
       steps_of(
           "ssp",
           with(
               kFour,
               "--learning-rate 0.1 --max-samples 12800 --straggler kind=uniform,min=0ms,max=1ms")),
       "--staleness 1000000", "--algorithm asgd"},
      {"hogwild_of_a_model_each_are_groups_of_one",
       steps_of("hogwild", with(with(kEqual, kFour), "--learning-rate 0.1")), "--models worker",
       "--models 0:1:2:3"},
      {"hogwild_of_a_machine_is_one_group",
       steps_of("hogwild", with(with(kEqual, kFour), "--learning-rate 0.1 --tau 3")),
       "--models machine", "--models 0-3"},
  };
  // w - lr g, the same as sgd's fused step up to the order of summation inside the GEMM.
  for (const std::string algorithm :
       {"ssgd", "asgd", "adpsgd", "eager-solo", "eager-majority", "rna", "esync"}) {
    for (const char* schedule : {"constant", "inverse_time"}) {
      all.push_back({algorithm + "_alone_is_sgd_" + schedule,
                     steps_of("sgd", {{"schedule", schedule}}),
                     {},
                     {{"algorithm", algorithm}},
                     1e-5});
    }
  }
  // ssgd's server with one worker gives the same bits; the mean of one replica is that replica.
  for (const std::string optimizer : {"sgd", "momentum", "nesterov"}) {
    const Settings rule = fmt::format("--optimizer {} --learning-rate 0.1", optimizer);
    all.push_back({"asgd_alone_is_central_" + optimizer,
                   steps_of("asgd", rule),
                   {},
                   "--algorithm ssgd --storage central"});
    for (const std::string steps : {"1", "8"}) {
      all.push_back({"local_sgd_alone_is_sgd_" + optimizer + steps,
                     with(kLocal, rule),
                     {{"local_steps", steps}},
                     "--algorithm sgd"});
    }
    if (optimizer == "sgd") continue;
    // delta = lr mean_i g_i: momentum of the outer optimizer, with rate 1, is that of ssgd's,
    // v <- mu v + lr g; up to rounding.
    all.push_back(
        {"outer_" + optimizer + "_is_that_of_ssgd",
         with(kLocal, with(kFour, "--learning-rate 0.1")),
         fmt::format("--local-steps 1 --outer-optimizer {} --outer-momentum 0.8", optimizer),
         with(kSsgd, "--optimizer {} --momentum 0.8", optimizer), 1e-5});
  }
  for (const std::string tau : {"1", "3"}) {
    // z <- z + sum_j c_j + 0 (z - z_prev).
    all.push_back({"sma_without_momentum_is_easgd" + tau,
                   with(kSma, "--tau {} --learners-per-device 2", tau), "--sma-momentum 0",
                   "--algorithm easgd"});
    // One learner per device is the reference model of its device: algorithm 1 among the references
    // is algorithm 1 among the learners.
    all.push_back({"sma_hierarchical_of_one_learner_is_flat" + tau, with(kSma, {{"tau", tau}}),
                   "--sma flat", "--sma hierarchical"});
  }
  // One node: Adasum of one update is the update, so that only the mean inside is left. The
  // difference is w + ((w + d) - w) against w + d.
  for (const std::string batch : {"split", "full"}) {
    all.push_back(
        {"adasum_of_one_node_is_the_mean_" + batch,
         steps_of("ssgd", with(kFour, "--optimizer momentum --per-worker-batch {}", batch)),
         {},
         "--reduce adasum --node-size 4",
         2e-5});
  }
  // All gradients ready: lr (P/P) times the mean of P contributions = ssgd with b_max per worker.
  // The factor 1/P comes before the sum in rank order, as in ssgd.
  // No worker is late: there are no leftovers that `fresh` and --eta 0 could treat differently.
  for (const auto& [name, algorithm] :
       {std::pair<std::string, std::string>{"eager_solo", "eager-solo"},
        {"eager_majority", "eager-majority"},
        {"rna", "rna"},
        {"rna_fresh", "rna --trigger fresh --local sum"},
        {"rna_any", "rna --trigger any --bound age --eta 0"}}) {
    for (const std::string workers : {"2", "3", "8"}) {
      for (const std::string network : {"pcie3", "ethernet-1g", "ideal"}) {
        all.push_back({name + workers + "_ready_on_" + network + "_is_ssgd",
                       steps_of("sgd", with(kEqual, "--workers {} --network {} --max-samples 6400",
                                            workers, network)),
                       "--algorithm " + algorithm, kSsgd});
      }
    }
  }
  // The same model, data and order of summation in both clusters.
  for (const auto& [name, settings] : std::vector<std::pair<std::string, Settings>>{
           {"ssgd", steps_of("ssgd", "--evaluate-every 576")},
           {"elastic", steps_of("elastic", "--mega-batch 6 --evaluate-every 576")},
           {"local_sgd", with(kLocal, "--outer-optimizer nesterov")},
           {"sma", with(kSma, "--learners-per-device 2")},
           {"sma_no_overlap", with(kSma, "--learners-per-device 2 --overlap false")},
           {"sma_hierarchical", with(kSma, "--learners-per-device 2 --sma hierarchical")},
           {"adasum", steps_of("ssgd", kAdasum)}}) {
    all.push_back({name + "_on_threads_is_that_in_sim", with(settings, kThree), kSim, kThreads});
  }
  for (const std::string state : {"replicated", "partitioned"}) {
    all.push_back({"adasum_" + state + "_on_threads_is_that_in_sim",
                   steps_of("ssgd", with(kAdasum,
                                         "--workers 6 --node-size 2 --optimizer momentum "
                                         "--optimizer-state {} --evaluate-every 576",
                                         state)),
                   kSim, kThreads});
  }
  // All of them hold for a network of tokens, on one network; clusters agree about masks, too. The
  // sanitizers see networks of tokens in tests of their own.
  for (std::size_t i = 0, count = kSanitized ? 0 : all.size(); i < count; ++i) {
    const auto is = [name = all[i].name](const char* part) {
      return name.find(part) != std::string::npos;
    };
    if (is("_ready_on_") && !is("_on_ideal_")) continue;
    for (const auto& [suffix, text] : {std::pair<const char*, const Settings&>{"_of_text", kText},
                                       {"_of_masks", kMasked},
                                       {"_of_lines", kLines}}) {
      if (&text == &kMasked && !is("_on_threads_")) continue;
      const bool sums = is("central_") || is("of_one_node_") || is("partitioned_");
      if (&text == &kLines && !sums && !is("_on_threads_")) continue;
      Identity other = all[i];
      other.name += suffix;
      other.base = with(other.base, text);
      all.push_back(std::move(other));
    }
  }
  // The same sums over tokens, in another order.
  all.push_back({"packed_rows_are_padded_rows",
                 steps_of("ssgd", with(kLines, kFour)),
                 {},
                 "--lengths packed",
                 1e-5});
  for (Identity& each : all) std::ranges::replace(each.name, '-', '_');
  return all;
}

INSTANTIATE_TEST_SUITE_P(Every, Pairs, testing::ValuesIn(identities()),
                         [](const auto& test) { return test.param.name; });

// sum_i (n_i/n) * mean over part i = mean over the whole batch: the models agree, though the parts'
// losses differ, and where rows of tokens differ in length their numbers. So do the losses of the
// global batches, each at a model that agrees.
TEST(Identities, SsgdWithPWorkersIsSgdOnTheGlobalBatch) {
  for (const Settings& data : {Settings{}, kText, kMasked, kLines, with(kLines, "--lengths packed"),
                               with(kMasked, "--train {0} --test {0}", kLineData)}) {
    const Settings base = with(kIdentities, data);
    const Record sgd = run_with(base, "--algorithm sgd");
    for (const char* how :
         {"2", "3", "8 --overlap", "3 --storage central", "3 --cluster threads"}) {
      SCOPED_TRACE(describe_settings(data) + " workers " + how);
      const Record ssgd =
          run_with(base, "--algorithm ssgd --per-worker-batch split --workers {}", how);
      expect_close_curves(sgd, ssgd, 1e-5);
      for (std::size_t i = 1; i < sgd.curve.size(); ++i) {
        EXPECT_NEAR(sgd.curve[i].train_loss, ssgd.curve[i].train_loss,
                    1e-5 * sgd.curve[i].train_loss);
      }
    }
  }
}

std::vector<float> floats_of(const std::string& path) {
  const std::string bytes = read_file(path);
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

// By the parameters: one step on two long lines and two short ones, a line for each worker. Each
// ends up where sgd does; the mean of four means would be as far from there as from the start.
TEST(Identities, SsgdWeighsWorkersByTheirTargets) {
  const TemporaryFolder folder;
  const std::string start = folder / "start", sgd = folder / "sgd", ssgd = folder / "ssgd";
  const std::string text = folder.write(
      "lines.txt", "abcabcabcabcabcabcabcabcabcabc\nba\nabcabcabcabcabcabcabcabcabcabc\nca\n");
  const Settings base = fmt::format(
      "--cache false --format text --rows lines --block 64 --train {0} --test {0} --model "
      "gpt-micro?layers=1&width=16 --order sequential --learning-rate 0.5 --max-samples 4",
      text);
  for (const char* const lengths : {"padded", "packed"}) {
    run_with(base,
             "--lengths {} --algorithm sgd --batch-size 4 --dump-initial-parameters {} "
             "--dump-parameters {}",
             lengths, start, sgd);
    run_with(base,
             "--lengths {} --algorithm ssgd --batch-size 1 --workers 4 --overwrite "
             "--dump-parameters {}",
             lengths, ssgd);
    const std::vector<float> a = floats_of(sgd);
    EXPECT_LT(distance(a, floats_of(ssgd)), 1e-5 * distance(a, floats_of(start))) << lengths;
  }
}

// A much slower worker gets smaller batches until all make the same number of updates. (The default
// beta of 4 overshoots and oscillates at this gap, as the paper says it may.)
TEST(Identities, AdaptiveEqualisesUpdates) {
  const Record run =
      run_with(kIdentities,
               "--algorithm adaptive --workers 2 --mega-batch 40 --max-samples 40000 --speed 1,0.5 "
               "--batch-size 64 --beta 0.5 --profile @compute_only_profile");
  const auto events = merges(run);
  const auto first = events.front()["updates"], last = events.back()["updates"];
  EXPECT_GE(first[0].get<int>() - first[1].get<int>(), 10);
  EXPECT_LE(std::abs(last[0].get<int>() - last[1].get<int>()), 2);
  EXPECT_LT(events.back()["batch_size"][1].get<int>(), 45);
  EXPECT_EQ(events.back()["batch_size"][0].get<int>(), 64);
}

TEST(Identities, EveryAlgorithmStartsFromTheSameModel) {
  double loss = 0;
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    if (!algorithm.info.sharded_tables_only.empty()) continue;  // other data
    for (const char* cluster : {"sim", "threads"}) {
      const Record run = run_with(kIdentities, "--algorithm {} --cluster {} --max-samples 64",
                                  algorithm.info.name, cluster);
      if (loss == 0) loss = run.curve.front().test_loss();
      EXPECT_EQ(run.curve.front().test_loss(), loss) << algorithm.info.name << " on " << cluster;
    }
  }
}

}  // namespace
}  // namespace hetsgd::test::identities
