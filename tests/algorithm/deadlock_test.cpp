// Nothing deadlocks: every algorithm with random sizes, options, stragglers and budgets ends with
// every worker stopped. A deadlock is an Error that names the blocked processes, so that a failure
// reads like a bug report. HETSGD_DEADLOCK_SEEDS=FIRST-LAST runs other seeds, e.g. the one that
// failed, or 1-1000 after a change of how workers wait.

#include <cstdlib>

#include "core/error.hpp"
#include "core/random.hpp"
#include "core/text.hpp"
#include "support/clicks.hpp"
#include "support/effort.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd::test {
namespace {

// The order of magnitude of times; a step of this model takes 0.04 to 9 ms in sim.
constexpr double kLongestDelayMs = 20;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed, Purpose::test) {}

  int below(int n) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(n))); }
  int between(int low, int high) { return low + below(high - low + 1); }
  bool coin() { return below(2) == 0; }
  // 0.01 ms to kLongestDelayMs * scale, as many short as long ones.
  std::string time(double scale = 1) {
    const double low = std::log(0.01), high = std::log(kLongestDelayMs);
    return fmt::format("{:.3f}ms", scale * std::exp(random_.uniform(low, high)));
  }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }

 private:
  RandomStream random_;
};

std::string trace_file() {
  static const TemporaryFolder folder;
  return folder.write("delays.csv",
                      "rank,iteration,delay_s\n0,0,0.004\n*,1,0.0001\n*,2,0.003\n0,3,0\n");
}

// `scale` shortens times, for clusters in which they are real.
std::string straggler(Dice& dice, int workers, double scale) {
  const auto time = [&] { return dice.time(scale); };
  std::string text;
  switch (dice.below(9)) {
    case 0:
      text = fmt::format("kind=constant,factor={}", dice.between(1, scale < 1 ? 5 : 70));
      break;
    case 1:
      text = fmt::format("kind=uniform,min=0ms,max={}", time());
      break;
    case 2:
      return fmt::format("kind=groups,split={},max1={},max2={}", dice.below(workers + 1), time(),
                         time());
    case 3:
      text = fmt::format("kind=lognormal,median={},sigma=1", dice.time(0.1 * scale));
      break;
    case 4:
      text = fmt::format("kind=pareto,scale={},shape=3", dice.time(0.1 * scale));
      break;
    case 5:
      text = fmt::format("kind=periodic,period={},duration=0.009ms,factor=5", time());
      break;
    case 6:
      text = fmt::format("kind=burst,on={},off={},factor=6", time(), time());
      break;
    case 7:
      return fmt::format("kind=trace,file={}", trace_file());
    default:
      text = fmt::format("kind=pause,at={},duration={}", time(), time());
      break;
  }
  return dice.coin() ? text : fmt::format("{},worker={}", text, dice.below(workers));
}

// Every choice and switch that the algorithm declares, at random. Counts that decide which worker
// waits for which are small.
Settings own_options(const RegisteredAlgorithm& algorithm, Dice& dice) {
  const auto instance = algorithm.make();
  OptionSet set;
  instance->declare(set);
  Settings settings;
  for (const Option& option : set.options()) {
    if (dice.coin()) continue;
    if (option.type == OptionType::choice) {
      settings.emplace_back(option.name, dice.one_of(option.choices));
    } else if (option.type == OptionType::boolean) {
      settings.emplace_back(option.name, dice.coin() ? "true" : "false");
    } else if (option.name == "learners_per_device") {
      settings.emplace_back(option.name, dice.one_of<std::string>({"2", "3", "auto"}));
    } else if (option.type == OptionType::integer || option.type == OptionType::count) {
      const int low = static_cast<int>(std::max(0.0, option.minimum));
      const int high = static_cast<int>(std::min(4.0, option.maximum));
      settings.emplace_back(option.name, std::to_string(dice.between(low, std::max(low, high))));
    }
  }
  return settings;
}

// Every worker in one of up to three groups: "0;2:1".
std::string random_groups(Dice& dice, int workers) {
  std::vector<std::string> groups(3);
  for (int rank = 0; rank < workers; ++rank) {
    std::string& group = groups[static_cast<std::size_t>(dice.below(3))];
    group += (group.empty() ? "" : ";") + std::to_string(rank);
  }
  std::erase(groups, "");
  return fmt::format("{}", fmt::join(groups, ":"));
}

constexpr const char* kData =
    "generate:tiny?rows_train=64&rows_test=8&features=30&labels=6&nonzeros=5";

// The settings with which algorithms with sharded tables train.
Settings random_tables(Settings settings, Dice& dice, int workers) {
  std::erase_if(settings, [](const auto& s) { return s.first == "optimizer"; });
  settings = with(settings, sharded_clicks());
  std::vector<std::string> layouts = {"auto", "row", "table"};
  if (workers % 2 == 0) layouts.emplace_back("column:2");
  settings.emplace_back("sharding", dice.one_of(layouts));
  settings.emplace_back("embedding_dim", "8");
  settings.emplace_back("dedup", dice.coin() ? "true" : "false");
  return settings;
}

Settings random_run(const RegisteredAlgorithm& algorithm, const std::string& cluster,
                    std::uint64_t seed, bool served = false) {
  Dice dice(seed);
  const double scale = cluster == "sim" ? 1 : 0.1;
  const int workers = std::min(dice.between(1, 6), algorithm.info.max_workers);
  const int batch = dice.between(6, 12);
  Settings settings = {
      {"train", kData},
      {"test", kData},
      {"cache", "false"},
      {"hidden", "4"},
      {"learning_rate", "0.001"},  // a starved host lets others make a thousand local steps
      {"algorithm", algorithm.info.name},
      {"cluster", cluster},
      {"workers", std::to_string(workers)},
      {"batch_size", std::to_string(batch)},
      {"mega_batch", std::to_string(dice.between(1, 5))},
      {"seed", std::to_string(seed)},
      {"host_threads", "1"},
      {"network", dice.one_of<std::string>({"ideal", "pcie3", "ethernet-1g",
                                            HETSGD_TEST_DATA "/latency_only_network.json"})},
      {"profile",
       dice.one_of<std::string>({"v100", HETSGD_TEST_DATA "/latency_only_profile.json"})}};
  const bool has_kinds = algorithm.info.name == "hogbatch";  // of devices
  if (has_kinds && workers > 1) {
    settings.emplace_back("profile", dice.one_of<std::string>({"cpu,v100", "v100,cpu"}));
  }
  if (dice.below(3) == 0) {
    settings.emplace_back("max_time", dice.time(scale));
  } else {
    settings.emplace_back("max_samples", std::to_string(dice.between(1, 12 * batch)));
  }
  if (dice.coin()) settings.emplace_back("evaluate_every", std::to_string(dice.between(1, 40)));
  if (dice.coin()) settings.emplace_back("speed", fmt::format("1,{}", dice.coin() ? "0.5" : "2"));
  if (workers == 1) std::erase_if(settings, [](const auto& s) { return s.first == "speed"; });
  if (dice.below(4) == 0 && !has_kinds) {  // it has one pool, and most optimizers are refused too
    settings.emplace_back("partition",
                          dice.one_of<std::string>({"iid", "label_sorted", "dirichlet"}));
  }
  if (dice.below(4) == 0) {
    settings.emplace_back("optimizer", dice.one_of<std::string>({"momentum", "adam", "lamb"}));
  }
  for (int i = dice.below(3); i > 0; --i) {
    settings.emplace_back("straggler", straggler(dice, workers, scale));
  }
  if (served || !algorithm.info.sharded_tables_only.empty()) {
    settings = random_tables(std::move(settings), dice, workers);
  }
  if (served) {
    settings.emplace_back("table_exchange", "served");
    // With several workers the batches in flight may pin all rows.
    if (workers == 1 && dice.coin()) settings.emplace_back("table_capacity", "400");
  }
  settings = with(settings, own_options(algorithm, dice));
  // ssgd refuses --overlap with sharded tables.
  if (served) std::erase_if(settings, [](const auto& s) { return s.first == "overlap"; });
  for (auto& [key, value] : settings) {  // nodes of equal size, and a bound above another
    if (key == "node_size" && workers % std::stoi(value) != 0) value = std::to_string(workers);
    if (key == "cpu_batch_max") value = "6";
  }
  const bool grouped = std::ranges::find(settings, std::pair<std::string, std::string>(
                                                       "hierarchical", "true")) != settings.end();
  if (grouped && dice.coin()) settings.emplace_back("groups", random_groups(dice, workers));
  return settings;
}

// The same on one core of a host whose processes poll for messages (--host-cores).
Settings on_one_core(Settings settings, const RegisteredAlgorithm& algorithm) {
  for (auto& [key, value] : settings) {
    if (key == "network") value = HETSGD_TEST_DATA "/polling_network.json";
    if (key != "profile" || algorithm.info.name == "hogbatch") continue;
    value = HETSGD_TEST_DATA "/latency_only_profile.json";
  }
  settings.emplace_back("host_cores", "1");
  return settings;
}

// False: the algorithm refuses this combination of options.
bool run_one(const Settings& settings, bool traced) {
  SCOPED_TRACE(describe_settings(settings));
  try {
    Trace trace;
    TrainHooks hooks;
    if (traced) hooks.trace = &trace;
    const Record run = run_training(settings, hooks);
    EXPECT_GE(run.curve.size(), 2U);
    for (const WorkerRecord& worker : run.workers) {
      if (!worker.waited_for) continue;
      for (const WaitedFor& each : *worker.waited_for) {
        EXPECT_NE(each.rank, worker.report.rank);
      }
    }
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
    return false;
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
    return true;
  }
}

std::pair<std::uint64_t, std::uint64_t> seeds(std::uint64_t count) {
  const char* given = std::getenv("HETSGD_DEADLOCK_SEEDS");
  if (given == nullptr) return {1, random_runs(count)};
  const auto parts = split(given, '-');
  return {parse_count("HETSGD_DEADLOCK_SEEDS", parts.front()),
          parse_count("HETSGD_DEADLOCK_SEEDS", parts.back())};
}

void run_seeds(const RegisteredAlgorithm& algorithm, const std::string& cluster,
               std::uint64_t count, bool served = false, bool one_core = false) {
  const auto [first, last] = seeds(count);
  std::uint64_t ran = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Settings settings = random_run(algorithm, cluster, seed, served);
    if (one_core) settings = on_one_core(std::move(settings), algorithm);
    ran += run_one(settings, /*traced=*/seed % 2 == 1);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  if (kSanitized) return;  // of few combinations most may be refused
  EXPECT_GE(2 * ran, last - first + 1) << "too many combinations were refused";
}

struct Kind {
  std::string algorithm;
  bool served;  // with tables that companions serve
};

class Deadlock : public testing::TestWithParam<Kind> {};

TEST_P(Deadlock, NoneInSim) {
  const auto& [algorithm, served] = GetParam();
  run_seeds(find_algorithm(algorithm), "sim", served ? 40 : 250, served);
}
TEST_P(Deadlock, NoneOnOneSimulatedCore) {
  const auto& [algorithm, served] = GetParam();
  run_seeds(find_algorithm(algorithm), "sim", 40, served, /*one_core=*/true);
}
TEST_P(Deadlock, NoneOnThreads) {
  const auto& [algorithm, served] = GetParam();
  run_seeds(find_algorithm(algorithm), "threads", served ? 20 : 30, served);
}

std::vector<Kind> kinds() {
  std::vector<Kind> all;
  for (const RegisteredAlgorithm& algorithm : algorithms()) {
    all.push_back({algorithm.info.name, false});
    if (may_serve_tables(algorithm.info)) all.push_back({algorithm.info.name, true});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Every, Deadlock, testing::ValuesIn(kinds()), [](const auto& test) {
  std::string name = test.param.algorithm + (test.param.served ? "_served" : "");
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace hetsgd::test
