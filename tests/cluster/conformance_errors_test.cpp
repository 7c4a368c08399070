// How runs fail: exceptions, aborts, broken promises and deadlocks, the same on every cluster.
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "cluster/conformance.hpp"

namespace hetsgd::conformance {
namespace {

using testing::HasSubstr;

class ProcessErrorsOn : public OnEveryCluster {};
HETSGD_ON_EVERY_CLUSTER(ProcessErrorsOn);

// Counts objects that worker frames own: unwinding must destroy all.
struct Counted {
  explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  std::atomic<int>& count_;
};

TEST_P(ProcessErrorsOn, ExceptionOfOneWorkerEndsTheRunAndUnwindsTheOthers) {
  std::atomic<int> alive = 0;
  const auto text = failure_of<Error>(cluster(), 4, [&](Endpoint& endpoint) {
    const Counted counted(alive);
    endpoint.comm().barrier();
    if (endpoint.rank() == 2) throw data_error("train.txt:7:3: broken");
    try {
      endpoint.comm().barrier();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "an algorithm must not see " << error.what();
    }
  });
  EXPECT_EQ(text, "train.txt:7:3: broken");
  EXPECT_EQ(alive, 0);
}

TEST_P(ProcessErrorsOn, ExceptionInsideOfCompute) {
  const auto text = failure_of<Error>(cluster(), 2, [&](Endpoint& endpoint) {
    if (endpoint.rank() == 1) {
      endpoint.compute({.operations = 1, .bytes = 0, .launches = 1}, ComputeKind::step,
                       [] { throw runtime_failure("not a number"); });
    }
    endpoint.comm().barrier();
  });
  EXPECT_EQ(text, "not a number");
}

// In sim the function runs at another time and on another thread: what would work elsewhere by
// chance is refused everywhere.
TEST_P(ProcessErrorsOn, VocabularyInsideOfAComputation) {
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
    EXPECT_THAT(failure_of<CheckFailure>(cluster(), 2,
                                         [&](Endpoint& endpoint) {
                                           endpoint.compute({}, ComputeKind::step,
                                                            [&] { call(endpoint); });
                                         }),
                HasSubstr("a computation"));
  }
}

TEST_P(ProcessErrorsOn, ARankOutsideOfTheGroup) {
  for (const int rank : {-2, 2}) {
    const std::vector<std::function<void(Endpoint&)>> calls = {
        [&](Endpoint& endpoint) {
          int x = 1;
          endpoint.comm().send(rank, 0, std::span(&x, 1));
        },
        [&](Endpoint& endpoint) {
          int x = 1;
          endpoint.comm().receive(rank, 0, std::span(&x, 1));
        },
        [&](Endpoint& endpoint) {
          int x = 1;
          endpoint.comm().broadcast(std::span(&x, 1), rank);
        }};
    for (const auto& call : calls) {
      EXPECT_EQ(failure_of<CheckFailure>(cluster(), 2, call),
                fmt::format("rank {} is named in a group of 2", rank));
    }
  }
}

TEST_P(ProcessErrorsOn, ExceptionInsideOfAPause) {
  for (const bool together : {false, true}) {
    const auto text = failure_of<Error>(cluster(), 3, [&](Endpoint& endpoint) {
      const auto fail = [] { throw runtime_failure("the disk is full"); };
      if (together) {
        endpoint.while_paused_together(fail);
      } else if (endpoint.rank() == 1) {
        endpoint.while_paused(fail);
      }
      endpoint.comm().barrier();
    });
    EXPECT_EQ(text, "the disk is full");
  }
}

class Failing final : public Service<Ask, Answer> {
  void handle(int, const Ask&, std::span<const float>, Responder<Answer>) override {
    throw runtime_failure("the server gives up");
  }
};
class Forgetful final : public Service<Ask, Answer> {
  void handle(int, const Ask&, std::span<const float>, Responder<Answer>) override {}
};

TEST_P(ProcessErrorsOn, ExceptionOfAService) {
  EXPECT_EQ(
      failure_of<Error>(cluster(), 3,
                        [](Endpoint& endpoint) { serve<Failing>(endpoint, "failing").call({}); }),
      "the server gives up");
}

TEST_P(ProcessErrorsOn, ServiceThatDropsARequestIsACheckFailure) {
  EXPECT_THAT(failure_of<CheckFailure>(
                  cluster(), 3,
                  [](Endpoint& endpoint) { serve<Forgetful>(endpoint, "forgetful").call({}); }),
              HasSubstr("service \"forgetful\" dropped a request of rank"));
}

TEST_P(ProcessErrorsOn, ReplyOfTheWrongSizeIsACheckFailure) {
  EXPECT_EQ(failure_of<CheckFailure>(cluster(), 2,
                                     [&](Endpoint& endpoint) {
                                       std::vector<float> three(3);
                                       if (endpoint.rank() == 0) return;
                                       serve<Gather>(endpoint, "gather", 1).call({1}, {}, three);
                                     }),
            "service \"gather\" answers rank 1 with 8 bytes and 0 elements, which expects 8 bytes "
            "and 3");
}

TEST_P(ProcessErrorsOn, ExceptionOfABackgroundTask) {
  std::atomic<int> alive = 0;
  const auto text = failure_of<Error>(cluster(), 2, [&](Endpoint& endpoint) {
    const Counted counted(alive);
    auto channel = std::make_shared<Channel>(endpoint);
    endpoint.background_task("failing", [](Endpoint& self) {
      self.sleep(Seconds(1e-3));
      throw runtime_failure("the background task gives up");
    });
    const std::lock_guard lock(*channel->monitor);
    channel->monitor->wait([] { return false; }, "something that never comes");
  });
  EXPECT_EQ(text, "the background task gives up");
  EXPECT_EQ(alive, 0);
}

TEST_P(ProcessErrorsOn, AbortFromOutside) {
  const auto made = make_cluster(cluster(), options_for(3));
  std::atomic<bool> started = false;
  std::thread outside([&] {
    while (!started) std::this_thread::yield();
    made->abort(std::make_exception_ptr(runtime_failure("interrupted")));
  });
  std::string text;
  try {
    made->run([&](Endpoint& endpoint) {
      started = true;
      while (true) {
        endpoint.sleep(Seconds(1e-4));
        endpoint.comm().barrier();
      }
    });
  } catch (const Error& error) {
    text = error.what();
  }
  outside.join();
  EXPECT_EQ(text, "interrupted");
}

TEST_P(ProcessErrorsOn, AbortBeforeTheRunEndsItAtOnce) {
  const auto made = make_cluster(cluster(), options_for(2));
  made->abort(std::make_exception_ptr(runtime_failure("interrupted")));
  EXPECT_THROW(made->run([](Endpoint& endpoint) {
    while (true) endpoint.sleep(Seconds(1e-4));
  }),
               Error);
}

// --- deadlocks -----------------------------------------------------------------------------------

TEST_P(ProcessErrorsOn, DeadlockOfAReceiveWithoutASend) {
  const auto text = failure_of<Error>(cluster(), 3, [](Endpoint& endpoint) {
    int x = 0;
    if (endpoint.rank() == 1) endpoint.comm().receive(2, 7, std::span(&x, 1));
    if (endpoint.rank() == 2) endpoint.comm().receive(kAnySource, 9, std::span(&x, 1));
    if (endpoint.rank() == 0) endpoint.comm().receive(1, 0, std::span(&x, 1));
  });
  EXPECT_THAT(text, HasSubstr("deadlock: no process can go on"));
  EXPECT_THAT(text, HasSubstr("worker 0: receives from 1, tag 0 (since 0.00"));
  EXPECT_THAT(text, HasSubstr("worker 1: receives from 2, tag 7 (since 0.00"));
  EXPECT_THAT(text, HasSubstr("worker 2: receives from any, tag 9 (since 0.00"));
}

TEST_P(ProcessErrorsOn, DeadlockOfACollectiveWithAMissingRank) {
  const auto text = failure_of<Error>(cluster(), 4, [](Endpoint& endpoint) {
    float x = 0;
    if (endpoint.rank() != 3) endpoint.comm().all_reduce(std::span(&x, 1));
  });
  EXPECT_THAT(text, HasSubstr("worker 0: waits in all_reduce (3 of 4 arrived)"));
  EXPECT_THAT(text, HasSubstr("worker 2: waits in all_reduce (3 of 4 arrived)"));
}

TEST_P(ProcessErrorsOn, DeadlockOfAServiceThatNeverAnswers) {
  const auto text = failure_of<Error>(cluster(), 2, [](Endpoint& endpoint) {
    serve<Gather>(endpoint, "scheduler", 3).call({endpoint.rank()});
  });
  EXPECT_THAT(text, HasSubstr("worker 0: waits for service \"scheduler\""));
  EXPECT_THAT(text, HasSubstr("worker 1: waits for service \"scheduler\""));
}

TEST_P(ProcessErrorsOn, DeadlockOfMonitors) {
  const auto text = failure_of<Error>(cluster(), 1, [](Endpoint& endpoint) {
    auto channel = std::make_shared<Channel>(endpoint);
    endpoint.background_task("comm", [channel](Endpoint&) {
      const std::lock_guard lock(*channel->monitor);
      channel->monitor->wait([&] { return channel->closed; }, "the end of training");
    });
    endpoint.sleep(Seconds(1e-3));
    const std::lock_guard lock(*channel->monitor);
    channel->monitor->wait([&] { return !channel->items.empty(); }, "a gradient");
  });
  EXPECT_THAT(text, HasSubstr("worker 0: waits: a gradient"));
  EXPECT_THAT(text, HasSubstr("background task \"comm\" of worker 0: waits: the end of training"));
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
  try {
    make_cluster("thread", options_for(1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("threads (a thread per worker, real time)"));
    EXPECT_THAT(error.hint(), HasSubstr("threads"));
  }
  const auto names = cluster_names();
  if (std::ranges::find(names, "mpi") == names.end()) {
    try {
      make_cluster("mpi", options_for(1));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::device);
      EXPECT_EQ(error.hint(), "built without MPI: configure with -DHETSGD_MPI=ON");
    }
  }
  EXPECT_THROW(make_cluster("threads", options_for(0)), Error);
  EXPECT_THAT(cluster_names(), testing::Contains("threads"));
}

}  // namespace
}  // namespace hetsgd::conformance
