// ServiceClient::post: requests whose replies come later, the same on every cluster.
#include <deque>

#include "cluster/conformance.hpp"

namespace hetsgd::conformance {
namespace {

class PostOn : public OnEverySize {};
HETSGD_ON_EVERY_SIZE(PostOn);

// Half an answer would be no answer: a worker that waited for its first would never ask again.
TEST_P(PostOn, SeveralRequestsOfOneWorkerAreUnderWay) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    auto gather = serve<Gather>(endpoint, "gather", 3 * endpoint.size());
    for (int round = 0; round < 5; ++round) {
      auto first = gather.post({1});
      auto second = gather.post({2});
      endpoint.compute({}, ComputeKind::vector, [] {});
      const Answer third = gather.call({3});
      EXPECT_EQ(third.number, 6 * endpoint.size());
      EXPECT_EQ(second.wait().number, 6 * endpoint.size());
      EXPECT_EQ(first.wait().number, 6 * endpoint.size());
      EXPECT_EQ(first.wait().from, endpoint.rank());
      endpoint.comm().barrier();
    }
  });
}

// The call that is given up settles before its reply's memory goes.
TEST_P(PostOn, APendingReplyMayTakeThePlaceOfAnother) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    auto scale = serve<Scale>(endpoint, "scale");
    const std::vector<float> x(20'000, 1.0F);
    std::vector<float> first(x.size()), second(x.size());
    auto pending = scale.post({1}, x, first);
    pending = scale.post({2}, x, second);
    EXPECT_EQ(pending.wait().number, 2);
    EXPECT_EQ(second.back(), 2.0F);
  });
}

TEST_P(PostOn, PayloadsTravelBothWays) {
  const auto report = run_on(cluster(), size(), [](Endpoint& endpoint) {
    auto scale = serve<Scale>(endpoint, "scale");
    for (const std::size_t n : {0U, 1U, 300U, 50'000U}) {
      const std::vector<float> x(n, static_cast<float>(endpoint.rank() + 1));
      std::deque<std::vector<float>> results;
      std::deque<PendingReply<Answer>> replies;
      for (int k = 1; k <= 4; ++k) {
        results.emplace_back(n);
        replies.push_back(scale.post({k}, x, results.back()));
      }
      for (int k = 4; k >= 1; --k) {
        if (k != 2) {
          EXPECT_EQ(replies.back().wait().number, k);
        }
        replies.pop_back();  // the second is not waited for before
        if (k == 2) continue;
        EXPECT_EQ(results[static_cast<std::size_t>(k - 1)],
                  std::vector(n, static_cast<float>((endpoint.rank() + 1) * k)));
      }
    }
  });
  if (!is_here(cluster(), 0)) return;
  const auto gradients = static_cast<std::size_t>(Traffic::gradients),
             parameters = static_cast<std::size_t>(Traffic::parameters);
  for (const WorkerReport& worker : report.workers) {
    EXPECT_EQ(worker.breakdown.bytes_sent[gradients], 4U * 4U * 50'301U);
    EXPECT_EQ(worker.breakdown.bytes_received[parameters], 4U * 4U * 50'301U);
  }
}

TEST_P(PostOn, TheWorkerGoesOnMeanwhile) {
  run_on(cluster(), size(), [](Endpoint& endpoint) {
    auto gather = serve<Gather>(endpoint, "gather", endpoint.size());
    // A chain of messages that would be a deadlock if post() waited for the reply.
    int word = 0;
    if (endpoint.rank() > 0) endpoint.comm().receive(endpoint.rank() - 1, 1, std::span(&word, 1));
    auto reply = gather.post({1});
    if (endpoint.rank() + 1 < endpoint.size()) {
      endpoint.comm().send(endpoint.rank() + 1, 1, std::span<const int>(&word, 1));
    }
    endpoint.comm().barrier();
    EXPECT_EQ(reply.wait().number, endpoint.size());
  });
}

// --- errors

class PostErrorsOf : public ErrorsOnEveryCluster {};
HETSGD_ON_EVERY_CLUSTER(PostErrorsOf);

TEST_P(PostErrorsOf, ADroppedRequestIsACheckFailure) {
  EXPECT_THAT(failure<CheckFailure>([](Endpoint& endpoint) {
                serve<Forgetful>(endpoint, "forgetful").post({}).wait();
                endpoint.comm().barrier();
              }),
              HasSubstr("forgetful"));
}

TEST_P(PostErrorsOf, AnExceptionBeforeTheReplyIsTheErrorOfTheRun) {
  const auto text = failure<Error>([this](Endpoint& endpoint) {
    std::vector<float> x(50'000);
    auto gather = serve<Gather>(endpoint, "gather", endpoint.size() + 1);
    const auto reply = gather.post({1}, x);
    if (endpoint.rank() == last_) throw runtime_failure("no more data");
    endpoint.comm().barrier();
  });
  EXPECT_THAT(text, HasSubstr("no more data"));
}

}  // namespace
}  // namespace hetsgd::conformance
