// Helpers that the conformance tests share: a run on any registered cluster with simple numbers.
#pragma once

#include <deque>

#include "cluster/cluster.hpp"
#include "core/error.hpp"
#include "support/plain_cluster.hpp"

namespace hetsgd::conformance {

// 1 Gop/s, 1 GB/s, 1 us per launch; links of 1 GB/s and 10 us.
inline ClusterOptions options_for(int workers) {
  ClusterOptions options = plain_cluster(workers);
  options.profiles[0].name = options.network.name = "test";
  options.profiles[0].launch_overhead_s = 1e-6;
  options.profiles[0].memory_bytes = 1e9;
  return options;
}

// Under mpirun the cluster to test is mpi, in the size that mpirun gave; else those of one process.
inline std::vector<std::string> clusters_to_test() {
  return launched() ? std::vector{default_cluster(/*is_virtual=*/false)} : local_cluster_names();
}
inline int size_to_test(int alone) {
  return launched() ? processes_of(default_cluster(/*is_virtual=*/false)).size() : alone;
}
inline std::vector<int> sizes_to_test() {
  if (!launched()) return {1, 2, 3, 4, 7, 8};
  return {size_to_test(1)};
}
// Whether a rank lives in this process. If so, the test sees the memory of its worker; for rank 0
// also its services and the report of the run.
inline bool is_here(const std::string& cluster, int rank) {
  ProcessGroup& processes = processes_of(cluster);
  return processes.control() == nullptr || processes.rank() == rank;
}
inline int ranks_here(const std::string& cluster, int size) {
  return processes_of(cluster).control() == nullptr ? size : 1;
}

inline ClusterReport run_on(const std::string& cluster, int workers,
                            const std::function<void(Endpoint&)>& worker) {
  return make_cluster(cluster, options_for(workers))->run(worker);
}

// The error that the run ends with.
template <class ErrorType>
std::string failure_of(const std::string& cluster, const ClusterOptions& options,
                       const std::function<void(Endpoint&)>& worker) {
  try {
    make_cluster(cluster, options)->run(worker);
  } catch (const ErrorType& error) {
    return error.what();
  }
  ADD_FAILURE() << "the run did not fail";
  return "";
}
template <class ErrorType>
std::string failure_of(const std::string& cluster, int workers,
                       const std::function<void(Endpoint&)>& worker) {
  return failure_of<ErrorType>(cluster, options_for(workers), worker);
}

// The text of the run's error when a worker throws `text`: with several processes it names the
// rank.
inline std::string of_rank(const std::string& cluster, int rank, const std::string& text) {
  return processes_of(cluster).size() == 1 ? text : fmt::format("rank {}: {}", rank, text);
}

// Its neighbours in the ring of all ranks.
inline int next_of(const Endpoint& endpoint) { return (endpoint.rank() + 1) % endpoint.size(); }
inline int previous_of(const Endpoint& endpoint) {
  return (endpoint.rank() + endpoint.size() - 1) % endpoint.size();
}

// Tests over all clusters that this binary has.
class OnEveryCluster : public testing::TestWithParam<std::string> {
 protected:
  const std::string& cluster() const { return GetParam(); }
};

// Errors that all clusters see alike, under mpirun with the rank's number before them.
class ErrorsOnEveryCluster : public OnEveryCluster {
 protected:
  // The last rank is the one that differs or fails.
  const int size_ = size_to_test(3), last_ = size_ - 1;
  template <class ErrorType>
  std::string failure(const std::function<void(Endpoint&)>& worker) const {
    return failure_of<ErrorType>(cluster(), size_, worker);
  }
  std::string of_last(const std::string& text) const { return of_rank(cluster(), last_, text); }
};

// The same of several ranks.
class ErrorsOfRanks : public ErrorsOnEveryCluster {
 protected:
  void SetUp() override {
    if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  }
};

// Tests over clusters and numbers of workers.
class OnEverySize : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  const std::string& cluster() const { return std::get<0>(GetParam()); }
  int size() const { return std::get<1>(GetParam()); }
};

// --- services and shared state that several tests use

struct Ask {
  int number = 0;
};
struct Answer {
  int number = 0;
  int from = 0;
};

// Answers when all have asked: with the sum, in reverse order.
class Gather final : public Service<Ask, Answer> {
 public:
  explicit Gather(int workers) : workers_(workers) {}
  void handle(int from, const Ask& ask, std::span<const float>, Responder<Answer> reply) override {
    sum_ += ask.number;
    waiting_.push_back({from, std::move(reply)});
    if (static_cast<int>(waiting_.size()) < workers_) return;
    for (auto one = waiting_.rbegin(); one != waiting_.rend(); ++one) one->reply({sum_, one->from});
    waiting_.clear();
    sum_ = 0;
  }

 private:
  struct Waiting {
    int from;
    Responder<Answer> reply;
  };
  int workers_;
  int sum_ = 0;
  std::vector<Waiting> waiting_;
};

// Gives the payload back, `number` times.
class Scale final : public Service<Ask, Answer> {
 public:
  void handle(int from, const Ask& ask, std::span<const float> payload,
              Responder<Answer> reply) override {
    std::vector<float> x(payload.begin(), payload.end());
    for (float& value : x) value *= static_cast<float>(ask.number);
    reply({ask.number, from}, x);
  }
};

// Never answers, and keeps nothing.
class Forgetful final : public Service<Ask, Answer> {
  void handle(int, const Ask&, std::span<const float>, Responder<Answer>) override {}
};

// State that a worker shares with its background task.
struct Channel {
  explicit Channel(Endpoint& endpoint) : monitor(endpoint.make_monitor()) {}
  std::unique_ptr<Monitor> monitor;
  std::deque<int> items;
  bool closed = false;
};

}  // namespace hetsgd::conformance

#define HETSGD_ON_EVERY_CLUSTER(suite)                                                   \
  INSTANTIATE_TEST_SUITE_P(All, suite,                                                   \
                           testing::ValuesIn(::hetsgd::conformance::clusters_to_test()), \
                           [](const auto& test) { return test.param; })

#define HETSGD_ON_EVERY_SIZE(suite)                                                     \
  INSTANTIATE_TEST_SUITE_P(                                                             \
      All, suite,                                                                       \
      testing::Combine(testing::ValuesIn(::hetsgd::conformance::clusters_to_test()),    \
                       testing::ValuesIn(::hetsgd::conformance::sizes_to_test())),      \
      [](const auto& test) {                                                            \
        return std::get<0>(test.param) + "_" + std::to_string(std::get<1>(test.param)); \
      })
