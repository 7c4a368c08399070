#include "collective/all_reduce_bench.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "cluster/process_group.hpp"
#include "cluster/reduce.hpp"
#include "collective/adasum.hpp"
#include "collective/halving_doubling.hpp"
#include "collective/ring.hpp"
#include "collective/tree.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

namespace {

constexpr int kTag = 1;

// Multiples of 1/64 in [-1, 1): all sums over up to 2^17 ranks are exact.
std::vector<float> input(int rank, std::size_t count) {
  std::vector<float> x(count);
  auto state = static_cast<std::uint32_t>(rank) * 0x9E3779B9U + 1;
  for (float& number : x) {
    state = state * 1664525U + 1013904223U;
    number = static_cast<float>(static_cast<int>(state >> 25) - 64) / 64;
  }
  return x;
}

std::vector<float> sum_of(std::span<const std::vector<float>> inputs) {
  std::vector<float> sum(inputs.front().size());
  std::vector<const void*> in;
  for (const auto& x : inputs) in.push_back(x.data());
  void* out = sum.data();
  reduce_in_rank_order(in, {&out, 1}, 0, sum.size(), Element::float32, ReduceOp::sum);
  return sum;
}

template <AdasumShape shape>
std::vector<float> adasum_at_one_place(std::span<const std::vector<float>> inputs) {
  const std::size_t bounds[] = {0, inputs.front().size()};
  return adasum_of(inputs, bounds, shape);
}

// A reduction that is a function of Comm, data and scratch.
template <auto reduce>
std::unique_ptr<BenchReduction> make_sum(Endpoint& endpoint, std::size_t) {
  class Sum final : public BenchReduction {
   public:
    explicit Sum(Comm& comm) : comm_(comm) {}
    void operator()(std::span<float> x) override { reduce(comm_, x, scratch_); }

   private:
    Comm& comm_;
    std::vector<float> scratch_;
  };
  return std::make_unique<Sum>(endpoint.comm());
}

void own(Comm& comm, std::span<float> x, std::vector<float>&) {
  comm.all_reduce(x, ReduceOp::sum, Traffic::gradients);
}
void native(Comm&, std::span<float> x, std::vector<float>&) {
  joined_processes()->library_all_reduce(x);
}
void ring(Comm& comm, std::span<float> x, std::vector<float>& scratch) {
  ring_all_reduce(comm, kTag, x, scratch, ReduceOp::sum, Traffic::gradients);
}
void halving_doubling(Comm& comm, std::span<float> x, std::vector<float>& scratch) {
  halving_doubling_all_reduce(comm, kTag, x, scratch, ReduceOp::sum, Traffic::gradients);
}
void tree(Comm& comm, std::span<float> x, std::vector<float>& scratch) {
  tree_all_reduce(comm, kTag, x, scratch, ReduceOp::sum, Traffic::gradients);
}

template <AdasumShape shape>
std::unique_ptr<BenchReduction> make_adasum(Endpoint& endpoint, std::size_t count) {
  class Adasum final : public BenchReduction {
   public:
    Adasum(Endpoint& my_node, std::size_t n) : reduce_(my_node, my_node.comm(), {0, n}, shape) {}
    void operator()(std::span<float> x) override { reduce_(x, kTag, Traffic::gradients); }

   private:
    AdasumAllReduce reduce_;
  };
  return std::make_unique<Adasum>(endpoint, count);
}

class AddOne final : public BenchReduction {
 public:
  void operator()(std::span<float> x) override {
    for (float& number : x) number += 1;
  }
};

class Exchange final : public BenchReduction {
 public:
  Exchange(Endpoint& endpoint, std::size_t count)
      : comm_(endpoint.comm()), incoming_(endpoint.device(), count) {}
  void operator()(std::span<float> x) override {
    const int peer = comm_.rank() ^ 1;
    if (peer < comm_.size()) comm_.sendrecv<float>(peer, kTag, x, incoming_.span());
  }

 private:
  Comm& comm_;
  Buffer incoming_;
};

double largest(std::span<const float> x) {
  double most = 0;
  for (const float number : x) most = std::max(most, std::abs(static_cast<double>(number)));
  return most;
}

}  // namespace

const std::vector<BenchOperator>& bench_operators() {
  constexpr auto kAnywhere = BenchPlace::anywhere, kHost = BenchPlace::host,
                 kGpus = BenchPlace::gpus;
  static const std::vector<BenchOperator> list = {
      {"sum", "the cluster's own all_reduce", make_sum<own>, sum_of, true, kAnywhere},
      {"nccl", "GPUs: by NCCL", make_sum<own>, sum_of, true, kGpus, AllReduce::nccl},
      {"gpu-ring", "GPUs: multi-stream, around a ring", make_sum<own>, sum_of, true, kGpus,
       AllReduce::ring},
      {"gpu-tree", "GPUs: multi-stream, along trees", make_sum<own>, sum_of, true, kGpus,
       AllReduce::tree},
      {"gpu-mpi", "GPUs of ranks: by an MPI library that takes pointers to their memory",
       make_sum<own>, sum_of, true, kGpus, AllReduce::mpi},
      {"gpu-host", "GPUs: through host memory", make_sum<own>, sum_of, true, kGpus,
       AllReduce::host},
      {"mpi", "MPI_Allreduce itself", make_sum<native>, sum_of, true, BenchPlace::mpi},
      {"ring", "a sum over messages, around a ring", make_sum<ring>, sum_of, true, kHost},
      {"halving-doubling", "a sum over messages, by vector halving and distance doubling",
       make_sum<halving_doubling>, sum_of, true, kHost},
      {"tree", "a sum over messages, to rank 0 and back", make_sum<tree>, sum_of, true, kHost},
      {"adasum", "Adasum as a tree, by vector halving and distance doubling",
       make_adasum<AdasumShape::tree>, adasum_at_one_place<AdasumShape::tree>, false, kAnywhere},
      {"adasum-linear", "Adasum of one rank after the other", make_adasum<AdasumShape::linear>,
       adasum_at_one_place<AdasumShape::linear>, false, kHost}};
  return list;
}

const BenchOperator& find_bench_operator(const std::string& option, const std::string& name) {
  std::vector<std::string> names;
  for (const BenchOperator& op : bench_operators()) {
    if (op.name == name) return op;
    names.push_back(op.name);
  }
  throw with_hint(
      usage_error("{}: found {}, expected one of {}", option, quote(name), alternatives(names)),
      did_you_mean(name, names));
}

std::uint64_t count_wrong(std::span<const float> x, std::span<const float> expected,
                          double tolerance) {
  HETSGD_CHECK_EQ(x.size(), expected.size());
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(static_cast<double>(x[i]) - static_cast<double>(expected[i]));
    wrong += !(error <= tolerance);
  }
  return wrong;
}

AllReduceBench::AllReduceBench(std::string cluster, ClusterOptions options, int iterations,
                               int warmup)
    : cluster_(std::move(cluster)),
      options_(std::move(options)),
      iterations_(iterations),
      warmup_(warmup) {
  HETSGD_CHECK_GE(iterations, 1);
  HETSGD_CHECK_GE(warmup, 0);
}

template <class SetUp>
BenchTimes AllReduceBench::run(AllReduce method, std::size_t count, SetUp set_up,
                               const std::vector<float>* expected, double tolerance) const {
  BenchTimes result;
  std::mutex mutex;
  ClusterOptions options = options_;
  options.all_reduce = method;
  make_cluster(cluster_, options)->run([&](Endpoint& endpoint) {
    const auto operation = set_up(endpoint);
    const std::vector<float> mine = input(endpoint.rank(), count);
    Buffer x(endpoint.device(), count);
    std::vector<double> time_s;
    for (int i = -warmup_; i < iterations_; ++i) {
      endpoint.device().upload(x.data(), mine.data(), count * sizeof(float));
      endpoint.device().synchronize();
      endpoint.comm().barrier();
      const Seconds start = endpoint.now();
      (*operation)(x.span());
      const Seconds end = endpoint.now();
      if (i >= 0) time_s.push_back((end - start).count());
    }
    std::int64_t wrong = 0;
    if (expected) {
      std::vector<float> content(count);
      endpoint.device().download(content.data(), x.data(), count * sizeof(float));
      wrong = static_cast<std::int64_t>(count_wrong(content, *expected, tolerance));
    }
    endpoint.comm().all_reduce(std::span(time_s), ReduceOp::max);
    endpoint.comm().all_reduce(std::span(&wrong, 1));
    const std::lock_guard lock(mutex);  // every rank has the same
    result = {.time_s = std::move(time_s), .wrong = static_cast<std::uint64_t>(wrong)};
  });
  return result;
}

BenchTimes AllReduceBench::measure(const BenchOperator& op, std::size_t count, bool check) const {
  std::vector<float> expected;
  if (check) {
    std::vector<std::vector<float>> inputs;
    for (int rank = 0; rank < options_.workers; ++rank) inputs.push_back(input(rank, count));
    expected = op.expected(inputs);
  }
  // A unit in the last place of the largest number, for each of up to `workers` combinations.
  const double tolerance = op.exact ? 0 : options_.workers * 0x1p-23 * largest(expected);
  return run(
      op.method, count, [&](Endpoint& endpoint) { return op.make(endpoint, count); },
      check ? &expected : nullptr, tolerance);
}

BenchTimes AllReduceBench::floor(std::size_t count) const {
  return run(
      AllReduce::automatic, count, [](Endpoint&) { return std::make_unique<AddOne>(); }, nullptr,
      0);
}

BenchTimes AllReduceBench::sendrecv(std::size_t count) const {
  return run(
      AllReduce::automatic, count,
      [&](Endpoint& endpoint) { return std::make_unique<Exchange>(endpoint, count); }, nullptr, 0);
}

}  // namespace hetsgd
