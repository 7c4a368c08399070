// Calls that run while their caller computes (pending.hpp), the same on every cluster.
#include <deque>

#include "cluster/conformance.hpp"
#include "support/random_numbers.hpp"

namespace hetsgd::conformance {
namespace {

constexpr std::size_t kLengths[] = {0, 1, 100, 30'000};

// Numbers whose sum depends on the order.
std::vector<float> numbers(int rank, std::size_t n) {
  return test::normal_numbers(n, static_cast<std::uint64_t>(rank));
}

class StartedOn : public OnEverySize {};
HETSGD_ON_EVERY_SIZE(StartedOn);

TEST_P(StartedOn, EveryCollectiveHasTheBitsOfItsBlockingForm) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    Comm& comm = endpoint.comm();
    const auto p = static_cast<std::size_t>(comm.size());
    for (const std::size_t n : kLengths) {
      const std::vector<float> mine = numbers(comm.rank(), n);
      std::vector<float> a = mine, b = mine;
      comm.start(all_reduce(std::span(a), ReduceOp::sum, Traffic::gradients)).wait();
      comm.all_reduce(std::span(b), ReduceOp::sum, Traffic::gradients);
      EXPECT_EQ(a, b);
      a = b = mine;
      comm.start(reduce_scatter(std::span(a), ReduceOp::max)).wait();
      comm.reduce_scatter(std::span(b), ReduceOp::max);
      const Block block = comm.block_of(comm.rank(), n);
      for (std::size_t i = block.begin; i < block.end; ++i) ASSERT_EQ(a[i], b[i]);
      a = mine;
      comm.start(broadcast(std::span(a), comm.size() - 1)).wait();
      EXPECT_EQ(a, numbers(comm.size() - 1, n));
      std::vector<float> c(p * n), d(p * n);
      comm.start(all_gather<float>(mine, c)).wait();
      comm.all_gather<float>(mine, d);
      EXPECT_EQ(c, d);
      std::vector<float> e(p * n);
      const std::vector<std::size_t> counts(p, n);
      comm.start(all_to_all<float>(c, counts, e, counts)).wait();
      comm.all_to_all<float>(c, counts, d, counts);
      EXPECT_EQ(e, d);
    }
  });
}

TEST_P(StartedOn, SeveralAreUnderWayBesideBlockingCalls) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    Comm& comm = endpoint.comm();
    const int p = comm.size();
    for (int round = 0; round < 5; ++round) {
      std::vector<std::vector<double>> x;
      for (const std::size_t n : kLengths) x.emplace_back(n, endpoint.rank());
      std::deque<Pending> calls;
      float blocking = 1;
      for (auto& one : x) {
        calls.push_back(comm.start(all_reduce(std::span(one))));
        comm.all_reduce(std::span(&blocking, 1));
        endpoint.compute({}, ComputeKind::vector, [] {});
      }
      comm.barrier();
      if (endpoint.rank() % 2 == 0) {
        for (Pending& call : calls) call.wait();
      } else {
        while (!calls.empty()) calls.pop_back();  // which waits
      }
      for (const auto& one : x) EXPECT_EQ(one, std::vector(one.size(), p * (p - 1) / 2.0));
      EXPECT_EQ(blocking, std::pow(static_cast<float>(p), 4.0F));
    }
  });
}

TEST_P(StartedOn, StartingWaitsForNobody) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    Comm& comm = endpoint.comm();
    std::int64_t x = 1;
    int word = 0;
    // A chain of messages that would be a deadlock if start() waited for the others.
    if (comm.rank() > 0) comm.receive(comm.rank() - 1, 1, std::span(&word, 1));
    Pending sum = comm.start(all_reduce(std::span(&x, 1)));
    if (comm.rank() + 1 < comm.size()) {
      comm.send(comm.rank() + 1, 1, std::span<const int>(&word, 1));
    }
    sum.wait();
    sum.wait();  // nothing more
    EXPECT_EQ(x, comm.size());
  });
}

TEST_P(StartedOn, InGroupsAndByBackgroundTasks) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    std::shared_ptr<Comm> own = endpoint.comm().split(0, endpoint.rank());
    const auto sum = [](Comm& comm, std::size_t n) {
      std::vector<float> x(n, 1), y(n, 2);
      Pending first = comm.start(all_reduce(std::span(x)));
      Pending second = comm.start(all_reduce(std::span(y)));
      first = std::move(second);  // waits for the first
      EXPECT_EQ(x, std::vector<float>(n, static_cast<float>(comm.size())));
      first.wait();
      EXPECT_EQ(y, std::vector<float>(n, 2 * static_cast<float>(comm.size())));
    };
    endpoint.background_task("own", [own, sum](Endpoint&) {
      for (int i = 0; i < 10; ++i) sum(*own, 20'000);
    });
    for (int i = 0; i < 5; ++i) {
      const auto half = endpoint.comm().split(endpoint.rank() % 2, endpoint.rank());
      sum(*half, 3000);
      sum(endpoint.comm(), 10);
    }
  });
}

TEST_P(StartedOn, CountsItsBytesAndItsWaitingAsThatOfTheWorker) {
  const int p = size();
  const auto report = run_on(cluster(), p, [](Endpoint& endpoint) {
    std::vector<float> x(1600 * static_cast<std::size_t>(endpoint.size()));
    Pending sum =
        endpoint.comm().start(all_reduce(std::span(x), ReduceOp::sum, Traffic::parameters));
    if (endpoint.rank() == 0) endpoint.sleep(Seconds(0.02));
    sum.wait();
    std::vector<float> y(4);
    Pending late = endpoint.comm().start(all_reduce(std::span(y)));
    if (endpoint.rank() == 0) {
      late.wait();
    } else {
      endpoint.sleep(Seconds(0.02));
    }
  });
  if (!is_here(cluster(), 0) || p == 1) return;
  const auto kind = static_cast<std::size_t>(Traffic::parameters);
  for (const WorkerReport& worker : report.workers) {
    EXPECT_EQ(worker.breakdown.bytes_sent[kind], static_cast<std::uint64_t>(12'800 * (p - 1)));
    EXPECT_EQ(worker.breakdown.bytes_received[kind], static_cast<std::uint64_t>(12'800 * (p - 1)));
    EXPECT_GE(worker.breakdown.wait.count(), 0.015);
  }
}

// --- errors

class StartedErrorsOf : public ErrorsOfRanks {};
HETSGD_ON_EVERY_CLUSTER(StartedErrorsOf);

TEST_P(StartedErrorsOf, CallsThatDifferAreFoundOut) {
  const auto text = failure<CheckFailure>([](Endpoint& endpoint) {
    std::vector<float> x(endpoint.rank() == 0 ? 99 : 100);
    Pending sum = endpoint.comm().start(all_reduce(std::span(x)));
    endpoint.sleep(Seconds(1e-3));
    sum.wait();
    endpoint.comm().barrier();
  });
  EXPECT_THAT(text, HasSubstr("rank 0 calls all_reduce (sum) of 99 float32 as control"));
}

TEST_P(StartedErrorsOf, LengthsThatDifferAreFoundOut) {
  const auto text = failure<CheckFailure>([this](Endpoint& endpoint) {
    const auto p = static_cast<std::size_t>(endpoint.size());
    const std::vector<std::size_t> out(p, 5);
    std::vector<std::size_t> in(p, 5);
    if (endpoint.rank() == last_) in[0] = 6;
    const std::vector<double> x(AllToAll::sum(out));
    std::vector<double> y(AllToAll::sum(in));
    endpoint.comm().start(all_to_all<double>(x, out, y, in)).wait();
    endpoint.comm().barrier();
  });
  EXPECT_THAT(text,
              HasSubstr(fmt::format("rank 0 sends 40 bytes to rank {}, which expects 48", last_)));
}

// The buffers of a call in flight are freed by then: no process may touch them, and the error is
// this one.
TEST_P(StartedErrorsOf, AnExceptionBetweenStartAndWaitIsTheErrorOfTheRun) {
  for (const bool others_start : {true, false}) {
    const auto text = failure<Error>([=, this](Endpoint& endpoint) {
      std::vector<float> x(100'000);
      if (endpoint.rank() == last_) {
        const Pending first = endpoint.comm().start(all_reduce(std::span(x)));
        const Pending second = endpoint.comm().start(all_reduce(std::span(x).first(1)));
        throw runtime_failure("no more data");
      }
      if (others_start) endpoint.comm().start(all_reduce(std::span(x))).wait();
      endpoint.comm().barrier();
    });
    EXPECT_THAT(text, HasSubstr("no more data"));
  }
}

TEST_P(StartedErrorsOf, AnErrorElsewhereEndsCallsUnderWay) {
  for (const bool waits : {true, false}) {
    const auto text = failure<Error>([=, this](Endpoint& endpoint) {
      std::vector<float> x(100'000);
      if (endpoint.rank() == last_) {
        endpoint.sleep(Seconds(2e-3));
        throw runtime_failure("no more data");
      }
      Pending sum = endpoint.comm().start(all_reduce(std::span(x)));
      if (waits) sum.wait();
      if (endpoint.rank() == 0) endpoint.comm().barrier();
    });
    EXPECT_THAT(text, HasSubstr("no more data"));
  }
}

}  // namespace
}  // namespace hetsgd::conformance
