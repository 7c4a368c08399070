// The rank that runs services, and the devices on which ranks compute.

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

// Tells its arguments and the rank on which it runs.
struct Told {
  double sum = 0;
  std::int32_t letters = 0, rank = 0;
};
class Teller final : public Service<Ask, Told> {
 public:
  Teller(std::span<const float> numbers, const std::string& text)
      : told_{.sum = std::accumulate(numbers.begin(), numbers.end(), 0.0),
              .letters = static_cast<std::int32_t>(text.size()),
              .rank = ranks().rank()} {}
  void handle(int, const Ask&, std::span<const float>, Responder<Told> reply) override {
    reply(told_);
  }

 private:
  Told told_;
};

void expect_teller_on(int rank, Endpoint& endpoint) {
  const std::vector<float> numbers{6, 0.5F, 0.25F};
  const Told told =
      serve<Teller>(endpoint, "teller", std::span<const float>(numbers), std::string("four"))
          .call({});
  EXPECT_EQ(told.sum, 6.75);
  EXPECT_EQ(told.letters, 4);
  EXPECT_EQ(told.rank, rank);
}

// Rank 0 never opens it: the serialised factory of the ranks that do makes it there.
TEST(MpiServices, MayBeOpenedByOthersOnly) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  conformance::run_on("mpi", size(), [](Endpoint& endpoint) {
    if (endpoint.rank() > 0) expect_teller_on(0, endpoint);
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
      expect_teller_on(services, endpoint);
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

// The error of a run with a service rank beside the workers.
template <class ErrorType>
std::string failure(const std::function<void(Endpoint&)>& worker) {
  auto options = options_for(size() - 1);
  options.service_rank = true;
  return conformance::failure_of<ErrorType>("mpi", options, worker);
}

TEST(MpiServiceRank, ArgumentsThatDoNotTravelAreAnError) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  class Local final : public Service<Ask, Answer> {
   public:
    explicit Local(int*) {}
    void handle(int, const Ask&, std::span<const float>, Responder<Answer>) override {}
  };
  int number = 7;
  EXPECT_THAT(failure<CheckFailure>(
                  [&](Endpoint& endpoint) { serve<Local>(endpoint, "local", &number).call({}); }),
              testing::HasSubstr("its arguments do not travel"));
}

TEST(MpiServiceRank, FailsWithTheErrorOfAWorkerOrAService) {
  if (size() < 2) GTEST_SKIP() << "needs two ranks";
  class Failing final : public Service<Ask, Answer> {
    void handle(int, const Ask&, std::span<const float>, Responder<Answer>) override {
      throw runtime_failure("the server gives up");
    }
  };
  for (const bool service : {false, true}) {
    EXPECT_EQ(failure<Error>([service](Endpoint& endpoint) {
                auto failing = serve<Failing>(endpoint, "failing");
                if (!service && endpoint.rank() == 0) throw data_error("broken");
                if (service) failing.call({});
                endpoint.comm().receive(kAnySource, 1, std::span<int>());
              }),
              service ? fmt::format("rank {}: the server gives up", size() - 1) : "rank 0: broken");
  }
}

// --- devices -------------------------------------------------------------------------------------

TEST(MpiDevices, AutoIsAnEqualShareOfTheCores) {
  auto options = options_for(size());
  options.devices = {"cpu:auto"};
  const auto cluster = make_cluster("mpi", options);
  const ProcessPlace& me = ranks().place();
  const CoreOrder order = machine_cores().in_order(me.cores);
  EXPECT_EQ(me.order.cores, order.cores);
  EXPECT_EQ(me.order.physical, order.physical);
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
