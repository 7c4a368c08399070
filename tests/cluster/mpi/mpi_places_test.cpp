// The rank that runs services, and the devices on which ranks compute.
#include <atomic>
#include <set>
#include <thread>

#include "cluster/conformance.hpp"
#include "cluster/devices.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {
namespace {

using conformance::Answer;
using conformance::Ask;
using conformance::options_for;

ProcessGroup& ranks() { return processes_of("mpi"); }
int size() { return ranks().size(); }
bool is_root() { return ranks().rank() == 0; }

// --- services ------------------------------------------------------------------------------------

// Arguments of a service that the test gets back in its answers.
struct Parts {
  std::vector<double> numbers;
  std::string text;
  static constexpr auto members() { return std::tuple(&Parts::numbers, &Parts::text); }
};
enum class Mode { slow, fast };
struct Told {
  double sum = 0;
  std::int64_t letters = 0;
  std::int32_t mode = 0, rank = 0;
};
class Teller final : public Service<Ask, Told> {
 public:
  Teller(const Parts& parts, std::span<const float> more, Mode mode, bool flag)
      : told_{.letters = static_cast<std::int64_t>(parts.text.size()),
              .mode = static_cast<std::int32_t>(mode) + (flag ? 10 : 0),
              .rank = ranks().rank()} {
    for (const double x : parts.numbers) told_.sum += x;
    for (const float x : more) told_.sum += static_cast<double>(x);
  }
  void handle(int, const Ask&, std::span<const float>, Responder<Told> reply) override {
    reply(told_);
  }

 private:
  Told told_;
};

Told ask_teller(Endpoint& endpoint, const std::string& name) {
  const std::vector<float> more{0.5F, 0.25F};
  return serve<Teller>(endpoint, name, Parts{{1, 2, 3}, "four"}, std::span(more), Mode::fast, true)
      .call({});
}

void expect_told(const Told& told, int rank) {
  EXPECT_EQ(told.sum, 6.75);
  EXPECT_EQ(told.letters, 4);
  EXPECT_EQ(told.mode, 11);
  EXPECT_EQ(told.rank, rank);
}

// Rank 0 never opens it: the serialised factory of the ranks that do makes it there.
TEST(MpiServices, MayBeOpenedByOthersOnly) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  conformance::run_on("mpi", size(), [](Endpoint& endpoint) {
    if (endpoint.rank() > 0) expect_told(ask_teller(endpoint, "teller"), 0);
    endpoint.comm().barrier();
  });
}

TEST(MpiServiceRank, RunsServicesAndNoWorker) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  auto options = options_for(size() - 1);
  options.service_rank = true;
  const int services = size() - 1;
  std::atomic<int> workers = 0;
  const auto cluster = make_cluster("mpi", options);
  EXPECT_EQ(cluster->size(), services);
  for (int i = 0; i < 3; ++i) {
    workers = 0;
    const auto report = cluster->run([&](Endpoint& endpoint) {
      ++workers;
      EXPECT_EQ(endpoint.size(), services);
      EXPECT_LT(endpoint.rank(), services);
      expect_told(ask_teller(endpoint, "teller"), services);
      auto gather = serve<conformance::Gather>(endpoint, "gather", endpoint.size());
      for (int k = 1; k < 20; ++k) {
        EXPECT_EQ(gather.call({k}).number, k * endpoint.size());
        if (k % 7 == 0) endpoint.while_paused_together([] {});
        if (k % 5 == endpoint.rank()) endpoint.while_paused([] {});
      }
      std::int64_t sum = 1;
      endpoint.comm().all_reduce(std::span(&sum, 1));
      EXPECT_EQ(sum, services);
    });
    EXPECT_EQ(workers, ranks().rank() < services ? 1 : 0);
    if (is_root()) {
      EXPECT_EQ(report.workers.size(), static_cast<std::size_t>(services));
    }
  }
}

TEST(MpiServiceRank, ArgumentsThatDoNotTravelAreAnError) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  class Local final : public Service<Ask, Answer> {
   public:
    explicit Local(int* number) : number_(number) {}
    void handle(int, const Ask&, std::span<const float>, Responder<Answer> reply) override {
      reply({*number_, 0});
    }

   private:
    int* number_;
  };
  auto options = options_for(size() - 1);
  options.service_rank = true;
  try {
    make_cluster("mpi", options)->run([](Endpoint& endpoint) {
      int number = 7;
      serve<Local>(endpoint, "local", &number).call({});
    });
    ADD_FAILURE() << "no error";
  } catch (const CheckFailure& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("its arguments do not travel"));
  }
}

TEST(MpiServiceRank, FailsWithTheErrorOfAWorkerOrAService) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  class Failing final : public Service<Ask, Answer> {
    void handle(int, const Ask&, std::span<const float>, Responder<Answer>) override {
      throw runtime_failure("the server gives up");
    }
  };
  auto options = options_for(size() - 1);
  options.service_rank = true;
  for (const bool service : {false, true}) {
    try {
      make_cluster("mpi", options)->run([service](Endpoint& endpoint) {
        auto failing = serve<Failing>(endpoint, "failing");
        if (!service && endpoint.rank() == 0) throw data_error("broken");
        if (service) failing.call({});
        endpoint.comm().receive(kAnySource, 1, std::span<int>());
      });
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), service ? fmt::format("rank {}: the server gives up", size() - 1)
                                      : std::string("rank 0: broken"));
    }
  }
}

// --- devices -------------------------------------------------------------------------------------

TEST(MpiDevices, AutoIsAnEqualShareOfTheCores) {
  auto options = options_for(size());
  options.devices = {"cpu:auto"};
  const auto cluster = make_cluster("mpi", options);
  const ProcessPlace& me = ranks().place();
  std::set<int> all;  // whether or not the launcher has shared them out already
  for (const ProcessPlace& rank : ranks().places())
    all.insert(rank.cores.begin(), rank.cores.end());
  const std::size_t cores = std::max<std::size_t>(1, all.size() / static_cast<std::size_t>(size()));
  EXPECT_EQ(cluster->device_name(me.rank), fmt::format("cpu:{}", cores));
  std::set<int> used;
  for (int r = 0; r < size(); ++r) {
    const WorkerReport planned = cluster->planned(r);
    EXPECT_EQ(planned.host, me.host);
    EXPECT_GT(planned.pid, 0);
    const bool fits = cores * static_cast<std::size_t>(size()) <= all.size();
    EXPECT_EQ(planned.cores.size(), fits ? cores : 0);
    for (const int core : planned.cores) EXPECT_TRUE(used.insert(core).second) << core;
  }
  cluster->run([&](Endpoint& endpoint) {
    const auto planned = cluster->planned(endpoint.rank()).cores;
    EXPECT_EQ(available_cores(), planned.empty() ? me.cores : planned);
  });
}

TEST(MpiDevices, AreNamedByRank) {
  auto options = options_for(size());
  options.devices = {"cpu:1", "cpu:auto"};
  if (size() == 1) options.devices.pop_back();
  const auto cluster = make_cluster("mpi", options);
  EXPECT_EQ(cluster->device_name(0), "cpu:1");
}

}  // namespace
}  // namespace hetsgd::mpi
