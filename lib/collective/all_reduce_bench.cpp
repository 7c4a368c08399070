#include "collective/all_reduce_bench.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>

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
std::unique_ptr<BenchReduction> make_sum(Node& node, std::size_t) {
  class Sum final : public BenchReduction {
   public:
    explicit Sum(Comm& comm) : comm_(comm) {}
    void operator()(std::span<float> x) override { reduce(comm_, x, scratch_); }

   private:
    Comm& comm_;
    std::vector<float> scratch_;
  };
  return std::make_unique<Sum>(node.comm());
}

void own(Comm& comm, std::span<float> x, std::vector<float>&) {
  comm.all_reduce(x, ReduceOp::sum, Traffic::gradients);
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
std::unique_ptr<BenchReduction> make_adasum(Node& node, std::size_t count) {
  class Adasum final : public BenchReduction {
   public:
    Adasum(Node& my_node, std::size_t n) : reduce_(my_node, my_node.comm(), {0, n}, shape) {}
    void operator()(std::span<float> x) override { reduce_(x, kTag, Traffic::gradients); }

   private:
    AdasumAllReduce reduce_;
  };
  return std::make_unique<Adasum>(node, count);
}

class AddOne final : public BenchReduction {
 public:
  void operator()(std::span<float> x) override {
    for (float& number : x) number += 1;
  }
};

double largest(std::span<const float> x) {
  double most = 0;
  for (const float number : x) most = std::max(most, std::abs(static_cast<double>(number)));
  return most;
}

}  // namespace

const std::vector<BenchOperator>& bench_operators() {
  static const std::vector<BenchOperator> list = {
      {"sum", "the cluster's own all_reduce", make_sum<own>, sum_of, true},
      {"ring", "a sum over messages, around a ring", make_sum<ring>, sum_of, true},
      {"halving-doubling", "a sum over messages, by vector halving and distance doubling",
       make_sum<halving_doubling>, sum_of, true},
      {"tree", "a sum over messages, to rank 0 and back", make_sum<tree>, sum_of, true},
      {"adasum", "Adasum as a tree, by vector halving and distance doubling",
       make_adasum<AdasumShape::tree>, adasum_at_one_place<AdasumShape::tree>, false},
      {"adasum-linear", "Adasum of one rank after the other", make_adasum<AdasumShape::linear>,
       adasum_at_one_place<AdasumShape::linear>, false}};
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
BenchTimes AllReduceBench::run(std::size_t count, SetUp set_up, const std::vector<float>* expected,
                               double tolerance) const {
  const auto ranks = static_cast<std::size_t>(options_.workers);
  std::vector<std::vector<double>> times(ranks);
  std::atomic<std::uint64_t> wrong = 0;
  make_cluster(cluster_, options_)->run([&](Node& node) {
    const auto operation = set_up(node);
    const std::vector<float> mine = input(node.rank(), count);
    std::vector<float> x(count);
    std::vector<double>& time_s = times[static_cast<std::size_t>(node.rank())];
    for (int i = -warmup_; i < iterations_; ++i) {
      std::copy(mine.begin(), mine.end(), x.begin());
      node.comm().barrier();
      const Seconds start = node.now();
      (*operation)(x);
      const Seconds end = node.now();
      if (i >= 0) time_s.push_back((end - start).count());
    }
    if (expected) wrong += count_wrong(x, *expected, tolerance);
  });
  BenchTimes result{.time_s = times.front(), .wrong = wrong};
  for (const auto& time_s : times) {
    for (std::size_t i = 0; i < time_s.size(); ++i) {
      result.time_s[i] = std::max(result.time_s[i], time_s[i]);
    }
  }
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
      count, [&](Node& node) { return op.make(node, count); }, check ? &expected : nullptr,
      tolerance);
}

BenchTimes AllReduceBench::floor(std::size_t count) const {
  return run(
      count, [](Node&) { return std::make_unique<AddOne>(); }, nullptr, 0);
}

}  // namespace hetsgd
