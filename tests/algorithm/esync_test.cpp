// esync: the state server's rules, identities, golden timelines with both kinds of answers.

#include <cstring>
#include <fstream>

#include "algorithm/parts/state_server.hpp"
#include "runs.hpp"

namespace hetsgd::test {
namespace {

// --- algorithm 2 by itself

// A state server whose clock the test sets.
class Server {
 public:
  explicit Server(int workers, double slack = 0) : server_(workers, slack) {
    server_.set_clock([this] { return Seconds(now_); });
  }

  StateRule ask(double now, int from, const StateQuery& query) {
    class Token final : public ReplyToken {
     public:
      Token(const std::string& service, StateAnswer& answer)
          : ReplyToken(service, 0, sizeof answer, 0), answer_(answer) {}
      void deliver(std::span<const std::byte> reply, std::span<const float>,
                   Traffic kind) override {
        EXPECT_EQ(kind, Traffic::control);
        std::memcpy(&answer_, reply.data(), reply.size());
      }

     private:
      StateAnswer& answer_;
    };
    now_ = now;
    StateAnswer answer{};
    server_.handle(from, query, {}, Responder<StateAnswer>(std::make_unique<Token>(name_, answer)));
    slowest = answer.slowest;
    return answer.rule;
  }

  int slowest = -1;

 private:
  const std::string name_ = "server";
  double now_ = 0;
  StateServer server_;
};

TEST(StateServer, SlowestIsFoundAnewAtEveryQueryAndTiesGoToTheLowestRank) {
  Server server(3);
  for (int r = 0; r < 3; ++r) server.ask(0, r, {0, 0, 2.0, 0});
  EXPECT_EQ(server.ask(2, 1, {0, 1, 1.0, 2}), StateRule::no_time_for_another);  // worker 0 at 2
  EXPECT_EQ(server.slowest, 0);
  EXPECT_EQ(server.ask(2, 2, {0, 1, 5.0, 2}), StateRule::is_slowest);  // the slowest from now on
  EXPECT_EQ(server.slowest, 2);
  EXPECT_EQ(server.ask(2, 0, {0, 1, 0.1, 2}), StateRule::slowest_is_ready);
}

// Whatever was asked before, the slowest is the first of those with the largest c.
TEST(StateServer, SlowestIsTheFirstOfTheLargest) {
  constexpr int kWorkers = 7;
  Server server(kWorkers);
  std::vector<double> c(kWorkers, std::numeric_limits<double>::infinity());
  std::uint64_t random = 1;
  for (int i = 0; i < 1000; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const auto rank = static_cast<std::size_t>(random >> 60U) % kWorkers;
    c[rank] = static_cast<double>((random >> 40U) % 4);  // many ties
    server.ask(i, static_cast<int>(rank), {i, 0, c[rank], 0});
    EXPECT_EQ(server.slowest, std::ranges::max_element(c) - c.begin());
  }
}

TEST(StateServer, QueriesThatAnotherOvertookChangeNothing) {
  Server server(2);
  server.ask(0, 0, {0, 0, 1, 0});
  server.ask(0, 1, {0, 0, 9, 0});
  EXPECT_EQ(server.ask(2, 0, {0, 2, 1, 2}), StateRule::time_for_another);
  EXPECT_EQ(server.ask(2, 0, {0, 1, 50, 1}), StateRule::overtaken);
  EXPECT_EQ(server.slowest, 1);
  // After READY every further query of that round gets READY again, whatever it says.
  EXPECT_EQ(server.ask(8.5, 0, {0, 8, 1, 8.5}), StateRule::no_time_for_another);
  EXPECT_EQ(server.ask(8.6, 0, {0, 9, 0.1, 8.6}), StateRule::no_time_for_another);
}

// --- the algorithm

const Settings kEsync = tiny_steps("esync", "--max-samples 6400 --evaluate-every 1280");

// Equal workers: at the first query after an iteration the slowest is the asking worker itself, or
// is ready, or has less time left than an iteration takes. So each makes exactly one iteration per
// round, in whatever order the queries come, and
//   w + (1/P) sum_i (w_i - w) = w - lr (1/P) sum_i g_i,
// which is ssgd with full per-worker batches. w_i - w is rounded relative to w, not to lr g: 1e-5.
// With profile v100 an iteration's time depends on the nonzeros of its batch.
TEST(Esync, EqualWorkersAreSsgd) {
  for (const char* profile : {HETSGD_TEST_DATA "/latency_only_profile.json", "v100"}) {
    for (const char* network : {HETSGD_TEST_DATA "/latency_only_network.json", "pcie3"}) {
      SCOPED_TRACE(std::string(profile) + ", " + network);
      const Settings base = with(kEsync, "--workers 4 --network {} --profile {}", network, profile);
      const Record esync = run_training(base);
      const Record ssgd = run_with(base, "--algorithm ssgd --per-worker-batch full");
      EXPECT_EQ(esync.histograms.at("local_steps"),
                (std::map<std::int64_t, std::uint64_t>{{1, 200}}));
      expect_close(step_losses(esync), step_losses(ssgd), 1e-5);
      expect_close_curves(esync, ssgd, 1e-5);
    }
  }
}

TEST(Esync, RoundsEndTheRunWithAMeasuredModel) {
  for (const char* cluster : {"sim", "threads"}) {
    const Record run =
        run_with(kEsync, "--cluster {} --workers 3 --rounds 7 --max-samples 999999", cluster);
    EXPECT_EQ(observations(run, "local_steps"), 7U * 3U);  // exactly T
    EXPECT_EQ(run.curve.back().samples_count, 32U * step_losses(run).size());
  }
}

// A round trip of 10 s: the answer to the first query of the slowest worker comes when all have
// made many more iterations, which count.
TEST(Esync, DelayedAnswersLetWorkersTrainOn) {
  const Settings base = with(kEsync,
                             "--workers 2 --rounds 4 --max-samples 999999 --profile "
                             "@latency_only_profile --network @latency_only_network");
  const Record immediate = run_training(base);
  const Record delayed = run_with(base, "--ack delayed");
  EXPECT_EQ(immediate.histograms.at("local_steps").rbegin()->first, 1);
  EXPECT_GE(delayed.histograms.at("local_steps").begin()->first, 2);
  EXPECT_EQ(delayed.workers[0].report.breakdown.wait.count(), 0.0);
}

std::size_t threads_of_this_process() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t count = 0;
    if (word == "Threads:" && status >> count) return count;
  }
  return 0;
}

// Queries never leave as fast as steps of microseconds end. A worker has at most four carriers.
TEST(Esync, DelayedQueriesTakeFewThreads) {
  constexpr std::size_t kWorkers = 3, kOthers = 8;  // the server, the watcher, the pool of the host
  const std::size_t before = threads_of_this_process();
  std::size_t most = 0;
  std::jthread watch([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      most = std::max(most, threads_of_this_process());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  run_training(with(kEsync,
                    "--ack delayed --cluster threads --devices cpu:1 --workers {} --batch-size 8 "
                    "--hidden 16 --max-samples 64000 --evaluate-every 64000",
                    kWorkers));
  watch.request_stop();
  watch.join();
  EXPECT_LE(most, before + 1 + kWorkers * (1 + 4) + kOthers);
}

// The server adds the same vectors in the order of ranks, as an all_reduce does: the same bits as
// long as all workers make as many iterations, which equal workers do. Only the time differs: n
// elements go P times to the server and P times back over its one link.
TEST(Esync, AServerAddsWhatAnAllReduceAdds) {
  for (const char* weight : {"equal", "steps"}) {
    for (const char* workers : {"1", "4"}) {
      const Settings base = with(kEsync,
                                 "--workers {} --weight {} --update-scale 0.9 --profile "
                                 "@latency_only_profile --network ethernet-1g",
                                 workers, weight);
      const Record ring = run_training(base);
      const Record server = run_with(base, "--aggregate server");
      expect_same_bits(ring, server);
      EXPECT_GT(server.elapsed, ring.elapsed);
    }
  }
}

}  // namespace
}  // namespace hetsgd::test
