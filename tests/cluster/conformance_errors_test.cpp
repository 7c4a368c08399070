// How runs fail: exceptions, aborts, broken promises and deadlocks, the same on every cluster.

#include "cluster/conformance.hpp"
#include "support/failure.hpp"

namespace hetsgd::conformance {
namespace {

using test::Failure;

class ProcessErrorsOf : public ErrorsOnEveryCluster {};
HETSGD_ON_EVERY_CLUSTER(ProcessErrorsOf);
// Deadlocks that one process sees: those across ranks are in mpi/mpi_errors_test.cpp.
class ProcessErrorsOn : public OnEveryCluster {};
HETSGD_ON_EVERY_CLUSTER(ProcessErrorsOn);

// Counts objects that worker frames own: unwinding must destroy all.
struct Counted {
  explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  std::atomic<int>& count_;
};

TEST_P(ProcessErrorsOf, ExceptionOfOneWorkerEndsTheRunAndUnwindsTheOthers) {
  for (const auto& wait : std::vector<std::function<void(Endpoint&)>>{
           [](Endpoint& endpoint) { endpoint.comm().barrier(); },
           [](Endpoint& endpoint) {
             std::vector<float> x(300000);
             endpoint.comm().all_reduce(std::span(x));
           },
           [](Endpoint& endpoint) {
             std::vector<float> x(300000);
             endpoint.comm().receive(kAnySource, 1, std::span(x));
           },
           [](Endpoint& endpoint) { endpoint.sleep(Seconds(100)); },
           [](Endpoint& endpoint) {
             endpoint.background_task("idle", [](Endpoint& self) { self.sleep(Seconds(100)); });
             const auto busy = [] { std::this_thread::sleep_for(1ms); };
             while (true) endpoint.compute({.operations = 1e6}, ComputeKind::step, busy);
           },
           [](Endpoint& endpoint) { serve<Gather>(endpoint, "gather", 100).call({1}); },
           [](Endpoint& endpoint) { endpoint.while_paused_together([] {}); },
       }) {
    std::atomic<int> alive = 0;
    const Failure failure = test::failure_of([&] {
      run_on(cluster(), size_, [&](Endpoint& endpoint) {
        const Counted counted(alive);
        endpoint.comm().barrier();
        if (endpoint.rank() == last_) throw data_error("train.txt:7:3: broken");
        try {
          wait(endpoint);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "an algorithm must not see " << error.what();
        }
      });
    });
    EXPECT_EQ(failure.code, ExitCode::data);
    EXPECT_EQ(failure.message, of_last("train.txt:7:3: broken"));
    EXPECT_EQ(alive, 0);
  }
}

TEST_P(ProcessErrorsOf, ExceptionInsideOfCompute) {
  EXPECT_EQ(failure<Error>([&](Endpoint& endpoint) {
              if (endpoint.rank() == last_) {
                endpoint.compute({.operations = 1, .bytes = 0, .launches = 1}, ComputeKind::step,
                                 [] { throw runtime_failure("not a number"); });
              }
              endpoint.comm().barrier();
            }),
            of_last("not a number"));
}

// In sim the function runs at another time and on another thread. So calls that would work
// elsewhere by chance are refused on every cluster.
TEST_P(ProcessErrorsOf, VocabularyInsideOfAComputation) {
  const std::vector<std::function<void(Endpoint&)>> calls = {
      [](Endpoint& endpoint) { endpoint.comm().barrier(); },
      [](Endpoint& endpoint) { endpoint.sleep(Seconds(1e-3)); },
      [](Endpoint& endpoint) { endpoint.compute({}, ComputeKind::vector, [] {}); },
      [](Endpoint& endpoint) { endpoint.while_paused([] {}); },
      [](Endpoint& endpoint) {
        const int x = 1;
        endpoint.comm().send(0, 0, std::span(&x, 1));
      }};
  for (const auto& call : calls) {
    EXPECT_THAT(failure<CheckFailure>([&](Endpoint& endpoint) {
                  endpoint.compute({}, ComputeKind::step, [&] { call(endpoint); });
                }),
                HasSubstr("a computation"));
  }
}

TEST_P(ProcessErrorsOf, VocabularyInsideOfAPause) {
  EXPECT_THAT(failure<CheckFailure>([&](Endpoint& endpoint) {
                if (endpoint.rank() == last_)
                  endpoint.while_paused([&] { endpoint.comm().barrier(); });
                while (true) endpoint.comm().barrier();
              }),
              HasSubstr("a pause"));
}

TEST_P(ProcessErrorsOf, ARankOutsideOfTheGroup) {
  for (const int rank : {-2, size_}) {
    const std::vector<std::function<void(Endpoint&, std::span<int>)>> calls = {
        [&](Endpoint& endpoint, std::span<int> x) { endpoint.comm().send(rank, 0, x); },
        [&](Endpoint& endpoint, std::span<int> x) { endpoint.comm().receive(rank, 0, x); },
        [&](Endpoint& endpoint, std::span<int> x) { endpoint.comm().broadcast(x, rank); }};
    for (const auto& call : calls) {
      EXPECT_THAT(failure<CheckFailure>([&](Endpoint& endpoint) {
                    int x = 1;
                    call(endpoint, std::span(&x, 1));
                  }),
                  HasSubstr(fmt::format("rank {} is named in a group of {}", rank, size_)));
    }
  }
}

TEST_P(ProcessErrorsOf, ExceptionInsideOfAPause) {
  for (const bool together : {false, true}) {
    const int failing = together ? 0 : last_;
    EXPECT_EQ(failure<Error>([&](Endpoint& endpoint) {
                const auto fail = [] { throw runtime_failure("the disk is full"); };
                if (together) {
                  endpoint.while_paused_together(fail);
                } else if (endpoint.rank() == failing) {
                  endpoint.while_paused(fail);
                }
                while (true) endpoint.comm().barrier();
              }),
              of_rank(cluster(), failing, "the disk is full"));
  }
}

class Failing final : public Service<Ask, Answer> {
  void handle(int, const Ask&, std::span<const float>, Responder<Answer>) override {
    throw runtime_failure("the server gives up");
  }
};

TEST_P(ProcessErrorsOf, OfServices) {
  EXPECT_EQ(
      failure<Error>([](Endpoint& endpoint) { serve<Failing>(endpoint, "failing").call({}); }),
      of_rank(cluster(), 0, "the server gives up"));
  EXPECT_THAT(failure<CheckFailure>(
                  [](Endpoint& endpoint) { serve<Forgetful>(endpoint, "forgetful").call({}); }),
              HasSubstr("service \"forgetful\" dropped a request of rank"));
  EXPECT_THAT(
      failure<CheckFailure>([&](Endpoint& endpoint) {
        std::vector<float> three(3);
        if (endpoint.rank() < last_) return;
        serve<Gather>(endpoint, "gather", 1).call({1}, {}, three);
      }),
      HasSubstr(fmt::format("service \"gather\" answers rank {} with 8 bytes and 0 elements, "
                            "which expects 8 bytes and 3",
                            last_)));
}

TEST_P(ProcessErrorsOf, ExceptionOfABackgroundTask) {
  std::atomic<int> alive = 0;
  EXPECT_EQ(failure<Error>([&](Endpoint& endpoint) {
              const Counted counted(alive);
              auto channel = std::make_shared<Channel>(endpoint);
              if (endpoint.rank() == last_) {
                endpoint.background_task("failing", [](Endpoint& self) {
                  self.sleep(Seconds(1e-3));
                  throw runtime_failure("the background task gives up");
                });
              }
              const std::lock_guard lock(*channel->monitor);
              if (endpoint.rank() == last_) {
                channel->monitor->wait([] { return false; }, "something that never comes");
              }
              endpoint.comm().barrier();
            }),
            of_last("the background task gives up"));
  EXPECT_EQ(alive, 0);
}

TEST_P(ProcessErrorsOf, AbortFromOutside) {
  const auto made = make_cluster(cluster(), options_for(size_));
  std::atomic<bool> started = false;
  std::thread outside;
  if (is_here(cluster(), last_)) {
    outside = std::thread([&] {
      while (!started) std::this_thread::yield();
      made->abort(std::make_exception_ptr(Error(ExitCode::time_limit, "interrupted")));
    });
  }
  const Failure failure = test::failure_of([&] {
    made->run([&](Endpoint& endpoint) {
      started = true;
      while (true) {
        endpoint.sleep(Seconds(1e-4));
        endpoint.comm().barrier();
      }
    });
  });
  EXPECT_EQ(failure.code, ExitCode::time_limit);
  EXPECT_EQ(failure.message, of_last("interrupted"));
  if (outside.joinable()) outside.join();
}

TEST_P(ProcessErrorsOf, AbortBeforeTheRunEndsItAtOnce) {
  const auto made = make_cluster(cluster(), options_for(size_));
  if (is_here(cluster(), last_)) {
    made->abort(std::make_exception_ptr(data_error("no such file")));
  }
  EXPECT_EQ(test::failure_of([&] {
              made->run([](Endpoint& endpoint) {
                while (true) endpoint.sleep(Seconds(1e-4));
              });
            }).message,
            of_last("no such file"));
}

// Failures at random places end the run with the first error, and no process touches memory of one
// that has ended.
TEST_P(ProcessErrorsOf, AtRandomPlaces) {
  for (int seed = 0; seed < (launched() ? 40 : 100); ++seed) {
    const int failing = seed % size_, when = seed % 7;
    EXPECT_EQ(failure<Error>([&](Endpoint& endpoint) {
                auto gather = serve<Gather>(endpoint, "gather", endpoint.size());
                std::vector<float> x(20000, 1.0F), y(x.size());
                const int next = next_of(endpoint), previous = previous_of(endpoint);
                for (int i = 0;; ++i) {
                  if (endpoint.rank() == failing && i == when / 2) {
                    if (when % 2 == 1) endpoint.sleep(Seconds(1e-3));
                    throw runtime_failure("enough");
                  }
                  endpoint.comm().all_reduce(std::span(x), ReduceOp::max);
                  gather.call({i}, x);
                  endpoint.comm().send(next, i, std::span<const float>(x));
                  endpoint.comm().receive(previous, i, std::span(y));
                  endpoint.comm().broadcast(std::span(y), i % endpoint.size());
                }
              }),
              of_rank(cluster(), failing, "enough"));
  }
}

// --- deadlocks -----------------------------------------------------------------------------------

struct Deadlock {
  int workers;
  std::function<void(Endpoint&)> worker;
  std::vector<std::string> texts;  // parts of the error
};

std::vector<Deadlock> deadlocks() {
  return {
      {3,
       [](Endpoint& endpoint) {
         int x = 0;
         if (endpoint.rank() == 1) endpoint.comm().receive(2, 7, std::span(&x, 1));
         if (endpoint.rank() == 2) endpoint.comm().receive(kAnySource, 9, std::span(&x, 1));
         if (endpoint.rank() == 0) endpoint.comm().receive(1, 0, std::span(&x, 1));
       },
       {"worker 0: receives from 1, tag 0 (since ", "worker 1: receives from 2, tag 7 (since ",
        "worker 2: receives from any, tag 9 (since "}},
      {4,
       [](Endpoint& endpoint) {
         float x = 0;
         if (endpoint.rank() != 3) endpoint.comm().all_reduce(std::span(&x, 1));
       },
       {"worker 0: waits in all_reduce (3 of 4 arrived)",
        "worker 2: waits in all_reduce (3 of 4 arrived)"}},
      {3,
       [](Endpoint& endpoint) {
         float x = 0;
         if (endpoint.rank() != 2) endpoint.comm().start(all_reduce(std::span(&x, 1))).wait();
       },
       {"worker 0: waits for its started all_reduce"}},
      {3,
       [](Endpoint& endpoint) {
         std::vector<float> x(10), y(10);
         const int peer = (endpoint.rank() + 1) % 3;  // around in a circle: no partner calls
         endpoint.comm().sendrecv<float>(peer, 5, x, y);
       },
       {"tag 5"}},
      {2,
       [](Endpoint& endpoint) { serve<Gather>(endpoint, "scheduler", 3).call({endpoint.rank()}); },
       {"worker 0: waits for service \"scheduler\"", "worker 1: waits for service \"scheduler\""}},
      {2,
       [](Endpoint& endpoint) {
         auto reply = serve<Gather>(endpoint, "scheduler", endpoint.size() + 1).post({1});
         endpoint.compute({}, ComputeKind::vector, [] {});
         reply.wait();
       },
       {"worker 0: waits for "}},
      {1,
       [](Endpoint& endpoint) {
         auto channel = std::make_shared<Channel>(endpoint);
         endpoint.background_task("comm", [channel](Endpoint&) {
           const std::lock_guard lock(*channel->monitor);
           channel->monitor->wait([&] { return channel->closed; }, "the end of training");
         });
         endpoint.sleep(Seconds(1e-3));
         const std::lock_guard lock(*channel->monitor);
         channel->monitor->wait([&] { return !channel->items.empty(); }, "a gradient");
       },
       {"worker 0: waits: a gradient",
        "background task \"comm\" of worker 0: waits: the end of training"}},
  };
}

TEST_P(ProcessErrorsOn, DeadlocksNameWhoWaitsForWhat) {
  for (const Deadlock& each : deadlocks()) {
    const auto text = failure_of<Error>(cluster(), each.workers, each.worker);
    EXPECT_THAT(text, HasSubstr("deadlock: no process can go on"));
    for (const std::string& part : each.texts) EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST_P(ProcessErrorsOn, DeadlockOfTwoLocksTakenCrosswise) {
  std::shared_ptr<Channel> channels[2];
  const auto text = failure_of<Error>(cluster(), 2, [&](Endpoint& endpoint) {
    const auto mine = static_cast<std::size_t>(endpoint.rank());
    channels[mine] = std::make_shared<Channel>(endpoint);
    endpoint.comm().barrier();
    const std::lock_guard first(*channels[mine]->monitor);
    endpoint.comm().barrier();  // both hold their first
    const std::lock_guard second(*channels[1 - mine]->monitor);
  });
  EXPECT_THAT(text, HasSubstr("worker 0: waits for the lock of a monitor"));
}

// --- the registry --------------------------------------------------------------------------------

TEST(Registry, UnknownNamesListTheKnownOnes) {
  const auto failure = [](const char* name, int workers) {
    return test::failure_of([&] { make_cluster(name, options_for(workers)); });
  };
  EXPECT_EQ(failure("thread", 1).code, ExitCode::usage);
  EXPECT_THAT(failure("thread", 1).message, HasSubstr("threads (a thread per worker, real time)"));
  EXPECT_THAT(failure("thread", 1).hint, HasSubstr("threads"));
  if (std::ranges::count(cluster_names(), "mpi") == 0) {
    EXPECT_EQ(failure("mpi", 1).code, ExitCode::device);
    EXPECT_THAT(failure("mpi", 1).hint, HasSubstr("-DHETSGD_MPI=ON"));
  }
  EXPECT_NE(failure("threads", 0).code, ExitCode::ok);
  EXPECT_THAT(cluster_names(), testing::Contains("threads"));
}

}  // namespace
}  // namespace hetsgd::conformance
