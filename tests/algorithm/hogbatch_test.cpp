// hogbatch: identities, the cost of a GPU's step, batch sizes of CPUs beside GPUs, refusals.

#include "runs.hpp"

namespace hetsgd::test::hogbatch {
namespace {

const Settings kHogbatch = tiny_steps("hogbatch", "--network ideal");
constexpr const char* kCpuProfile = HETSGD_TEST_DATA "/compute_only_profile.json";
constexpr const char* kGpuProfile = HETSGD_TEST_DATA "/compute_only_gpu_profile.json";

std::string machine(int cpus, int gpus) {
  return fmt::format("{}*{},{}*{}", kCpuProfile, cpus, kGpuProfile, gpus);
}

// Batches of hogwild's size in hogwild's order.
TEST(Hogbatch, OneCpuWithFixedBatchesIsHogwildToTheBit) {
  for (const char* cluster : {"sim", "threads"}) {
    const Settings base = with(kHogbatch, "--cluster {} --profile cpu", cluster);
    const Record hogwild = run_with(base, "--algorithm hogwild");
    const Record hogbatch = run_with(base, "--adapt fixed --cpu-batch-min 32");
    expect_same_bits(hogwild, hogbatch);
    EXPECT_EQ(hogbatch.histograms, hogwild.histograms);
  }
}

// No other worker moves w, so a move lands on the pulled values, and every element takes the
// replica's own bits. This holds whether the replica is added or copied.
TEST(Hogbatch, OneGpuIsSgdToTheBit) {
  for (const char* how : {"add", "overwrite"}) {
    for (const char* model : {"mlp", "linear", "fm"}) {
      const Settings base = with(kHogbatch, "--profile v100 --model {} --learning-rate 0.1", model);
      const Record gpu = run_with(base, {{"gpu_update", how}});
      expect_same_bits(run_with(base, "--algorithm sgd"), gpu);
      EXPECT_EQ(gpu.histograms.at("staleness"), (std::map<std::int64_t, std::uint64_t>{{0, 100}}));
    }
  }
}

// A profile whose launches take 1 ms and whose link 1 us per byte: a step of 9 launches, and two
// copies of 4 n bytes, each with the latency of its start.
TEST(Hogbatch, AGpuIsChargedForItsLinkAndACpuIsNot) {
  const Settings base = with(kHogbatch, "--profile @host_link_profile --max-samples 320");
  const Record gpu = run_training(base);
  const TimeBreakdown& spent = gpu.workers[0].report.breakdown;
  const auto pulled = spent.bytes_received[static_cast<std::size_t>(Traffic::parameters)];
  const auto added = spent.bytes_sent[static_cast<std::size_t>(Traffic::gradients)];
  const Record server = run_with(base, "--algorithm asgd");
  const TimeBreakdown& pushes = server.workers[0].report.breakdown;
  EXPECT_EQ(added, pulled);
  EXPECT_EQ(added, pushes.bytes_sent[static_cast<std::size_t>(Traffic::gradients)]);
  const double copies = 20 * 1e-5 + 1e-6 * static_cast<double>(pulled + added);
  EXPECT_NEAR(spent.communicate.count(), copies, 1e-9 * copies);
  EXPECT_NEAR(spent.compute.count(), 10 * 9e-3, 1e-9);
  EXPECT_NEAR(gpu.elapsed.count(), copies + 10 * 9e-3, 1e-6);

  const Record cpu = run_with(base, "--profile @latency_only_profile --cpu-batch-min 32");
  EXPECT_NEAR(cpu.elapsed.count(), 10 * 9e-3, 1e-6);
}

// The model is charged at its full size.
TEST(Hogbatch, ChargedCopiesAreThoseOfTheFullModel) {
  const auto copied = [](const Settings& more) {
    return run_with(with(kHogbatch, "--max-samples 320"), more).workers[0].report.breakdown;
  };
  const TimeBreakdown own = copied({}), full = copied("--charge amazon670k");
  constexpr auto kGradients = static_cast<std::size_t>(Traffic::gradients);
  EXPECT_GT(full.bytes_sent[kGradients], 1000 * own.bytes_sent[kGradients]);
  EXPECT_NEAR(full.communicate.count(),
              20 * 1e-5 + 2 * static_cast<double>(full.bytes_sent[kGradients]) / 1.2e10, 1e-3);
}

struct Rates {
  double cpu = 0, gpu = 0;                     // steps per second
  std::uint64_t cpu_batch = 0, gpu_batch = 0;  // at the end
};

// Rates after the first 50 steps of all workers.
Rates rates(const Settings& settings, int cpus) {
  const Record run = run_training(settings);
  std::multimap<double, std::pair<bool, std::uint64_t>> steps;  // by their start
  for (const auto& step : events_of(run, "step")) {
    const bool is_cpu = step["rank"].get<int>() < cpus;
    steps.emplace(step["start_s"].get<double>(),
                  std::pair(is_cpu, step["samples"].get<std::uint64_t>()));
  }
  Rates rates;
  int number = 0;
  for (const auto& [start, step] : steps) {
    (step.first ? rates.cpu_batch : rates.gpu_batch) = step.second;
    if (++number > 50) (step.first ? rates.cpu : rates.gpu) += 1;
  }
  EXPECT_GT(number, 300);
  rates.cpu /= run.elapsed.count();
  rates.gpu /= run.elapsed.count();
  return rates;
}

const Settings kKinds = with(kHogbatch,
                             "--batch-size 256 --gpu-batch-min 16 --learning-rate 0.1 "
                             "--evaluate-every 64K --evaluate-samples 16 --max-samples 64K");

// CPUs and GPUs whose speeds are 1:8 make as many updates, up to the factor by which sizes move.
TEST(Hogbatch, BothKindsMakeAsManyUpdatesWhereNoBoundHolds) {
  for (const char* alpha : {"2", "1.5", "3"}) {
    for (const auto& [cpus, gpus, speed] : {std::tuple(1, 1, "1,8"), std::tuple(4, 2, "1,1,1,1,8"),
                                            std::tuple(8, 1, "1,1,1,1,1,1,1,1,8")}) {
      SCOPED_TRACE(fmt::format("{} CPUs, {} GPUs, alpha {}", cpus, gpus, alpha));
      const Rates r = rates(with(kKinds, "--workers {} --profile {} --speed {} --alpha {}",
                                 cpus + gpus, machine(cpus, gpus), speed, alpha),
                            cpus);
      EXPECT_LE(std::max(r.cpu, r.gpu), std::stod(alpha) * std::min(r.cpu, r.gpu));
    }
  }
}

// CPUs that are as fast as the GPU: both kinds come to their bounds and stay.
TEST(Hogbatch, SizesStayInTheirBounds) {
  const Settings base = with(kKinds, "--workers 5 --profile {} --speed 8,8,8,8,1", machine(4, 1));
  const Rates r = rates(base, 4);
  EXPECT_EQ(r.cpu_batch, 64U);
  EXPECT_EQ(r.gpu_batch, 16U);
  EXPECT_EQ(rates(with(base, "--gpu-batch-min auto"), 4).gpu_batch, 128U);  // half of its largest
  const Rates narrow = rates(with(base, "--cpu-batch-max 24 --gpu-batch-min 200"), 4);
  EXPECT_EQ(narrow.cpu_batch, 24U);
  EXPECT_EQ(narrow.gpu_batch, 200U);
}

TEST(Hogbatch, FixedSizesAreTheFirstOnes) {
  const Settings base =
      with(kKinds, "--workers 2 --profile {} --adapt fixed --cpu-batch-min 5 --max-samples 16K",
           machine(1, 1));
  const Record run = run_training(base);
  for (const auto& step : events_of(run, "step")) {
    EXPECT_EQ(step["samples"].get<int>(), step["rank"].get<int>() == 0 ? 5 : 256);
  }
  EXPECT_TRUE(events_of(run, "batch_size").empty());
}

// A CPU's update counts as a quarter: CPUs make four times as many.
TEST(Hogbatch, BetaIsWhatACpusUpdateCounts) {
  const Rates r =
      rates(with(kKinds, "--workers 3 --profile {} --speed 1,1,4 --beta 0.25", machine(2, 1)), 2);
  EXPECT_GE(r.cpu, 2 * r.gpu);
  EXPECT_LE(r.cpu, 8 * r.gpu);
}

// Every change is by alpha or to a bound, in the direction of the updates; of a kind of four
// workers at most one in four of its requests.
TEST(Hogbatch, ChangesOfSizeAreRecorded) {
  const Record run = run_with(kKinds, "--workers 5 --profile {} --speed 1,1,1,1,8", machine(4, 1));
  std::map<std::string, std::uint64_t> size{{"cpu", 1}, {"gpu", 256}};
  std::uint64_t cpu_changes = 0, cpu_steps = 0;
  for (const auto& event : events_of(run, "batch_size")) {
    const auto kind = event["kind"].get<std::string>();
    const auto b = event["batch_size"].get<std::uint64_t>();
    const double cpu = event["cpu_updates"].get<double>(), gpu = event["gpu_updates"].get<double>();
    const bool grows = kind == "cpu" ? cpu > gpu : gpu > cpu;
    EXPECT_EQ(b, grows ? 2 * size[kind] : size[kind] / 2);
    EXPECT_EQ(event["rank"].get<int>() == 4, kind == "gpu");
    size[kind] = b;
    cpu_changes += kind == "cpu" ? 1 : 0;
  }
  for (const auto& step : events_of(run, "step")) cpu_steps += step["rank"].get<int>() < 4 ? 1 : 0;
  EXPECT_GT(cpu_changes, 3U);
  EXPECT_LE(4 * cpu_changes, cpu_steps + 4);
}

// While the slow GPU makes a step the CPUs write. Its update overwrites their writes, or adds to
// them.
TEST(Hogbatch, AddingKeepsWhatCpusHaveWrittenMeanwhile) {
  const Settings base = with(kHogbatch,
                             "--workers 4 --profile {} --learning-rate 0.3 --adapt fixed "
                             "--cpu-batch-min 4 --max-samples 12800 --evaluate-every 12800",
                             machine(3, 1));
  const Record adds = run_training(base);
  const Record overwrites = run_with(base, "--gpu-update overwrite");
  EXPECT_EQ(adds.histograms, overwrites.histograms);
  EXPECT_GE(adds.histograms.at("staleness").rbegin()->first, 3 * (32 / 4 - 1));
  EXPECT_LT(adds.curve.back().test_loss(), overwrites.curve.back().test_loss());
}

TEST(Hogbatch, RefusesWhatMakesNoSense) {
  for (const auto& [more, message] : std::vector<std::pair<Settings, std::string>>{
           {{{"partition", "iid"}}, "shared: hogbatch"},
           {{{"optimizer", "adam"}}, "--optimizer: hogbatch"},
           {{{"cpu_batch_min", "9"}, {"cpu_batch_max", "8"}},
            "--cpu-batch-min: found 9, expected at most --cpu-batch-max 8"},
           {{{"cpu_batch_max", "33"}},
            "--cpu-batch-max: found 33, expected at most --batch-size 32"},
           {{{"gpu_batch_min", "33"}},
            "--gpu-batch-min: found 33, expected at most --batch-size 32"}}) {
    expect_refused(with(kHogbatch, more), message);
  }
}

TEST(Hogbatch, LearnsOnBothClusters) {
  const Settings base = with(kHogbatch, {{"batch_size", "16"},
                                         {"learning_rate", "0.3"},
                                         {"max_samples", learning_samples(16'000)},
                                         {"evaluate_every", "4000"},
                                         {"record_steps", "false"}});
  for (const std::string& cluster : learning_clusters()) {
    SCOPED_TRACE(cluster);
    const std::string profile = cluster == "sim" ? "cpu*3,v100" : "cpu";
    const Record run = run_with(base, "--cluster {} --workers 4 --profile {}", cluster, profile);
    if (kSanitized) continue;
    EXPECT_GT(metric_of(run.curve.back(), "p1").value(), 0.3);
  }
}

}  // namespace
}  // namespace hetsgd::test::hogbatch
