// Collectives of vectors in the memory of devices, for the tests of clusters with GPUs.
#pragma once

#include "cluster/conformance.hpp"
#include "support/random_numbers.hpp"

namespace hetsgd::conformance {

using test::uniform_numbers;

// A vector in the memory of the node's device.
class Vector {
 public:
  Vector(Endpoint& endpoint, const std::vector<float>& x)
      : device_(endpoint.device()), buffer_(device_, x.size()) {
    device_.upload(buffer_.data(), x.data(), x.size() * sizeof(float));
  }
  std::span<float> span() { return buffer_.span(); }
  std::vector<float> content() {
    std::vector<float> x(buffer_.size());
    device_.download(x.data(), buffer_.data(), x.size() * sizeof(float));
    return x;
  }

 private:
  Device& device_;
  Buffer buffer_;
};

// Calls every collective, in an order that all ranks draw alike, over all, halves and pairs,
// sometimes on host memory. Returns the final vector of each rank.
inline std::vector<float> random_collectives(Endpoint& endpoint, std::uint64_t seed, int calls) {
  std::vector<float> results;
  const auto take = [&](const std::vector<float>& x) {
    results.insert(results.end(), x.begin(), x.end());
  };
  std::vector<std::unique_ptr<Comm>> groups;
  groups.push_back(endpoint.comm().split(0, endpoint.rank()));
  groups.push_back(endpoint.comm().split(endpoint.rank() % 2, endpoint.rank()));
  groups.push_back(endpoint.comm().split(endpoint.rank() / 2, -endpoint.rank()));
  RandomStream common(seed, Purpose::test, 1);
  for (int i = 0; i < calls; ++i) {
    Comm& comm = *groups[common.below(groups.size())];
    const std::size_t n = common.below(4) == 0 ? common.below(40'000) : common.below(300);
    const auto mine = uniform_numbers(n, static_cast<std::uint64_t>(endpoint.rank() + 100 * i));
    const auto op = static_cast<ReduceOp>(common.below(3));
    const int root = static_cast<int>(common.below(8)) % comm.size();
    const std::uint64_t what = common.below(7);
    if (what == 5) {
      std::vector<float> x = mine;
      comm.all_reduce(std::span(x), op);
      take(x);
      continue;
    }
    Vector x(endpoint, mine);
    if (what == 6) {  // the first part of rank r goes to rank r - 1, the second to rank r + 1
      const auto p = static_cast<std::size_t>(comm.size()),
                 r = static_cast<std::size_t>(comm.rank());
      std::vector<std::size_t> out(p), in(p);
      out[(r + p - 1) % p] += n / 3;
      out[(r + 1) % p] += n - n / 3;
      in[(r + 1) % p] += n / 3;
      in[(r + p - 1) % p] += n - n / 3;
      Vector y(endpoint, std::vector<float>(n));
      comm.all_to_all<float>(x.span(), out, y.span(), in);
      take(y.content());
      continue;
    }
    if (what == 0) comm.all_reduce(x.span(), op, Traffic::gradients);
    if (what == 1) comm.start(all_reduce(x.span(), op, Traffic::gradients)).wait();
    if (what == 2) comm.broadcast(x.span(), root);
    if (what == 3) comm.reduce_scatter(x.span(), op);
    if (what == 4) {
      Vector all(endpoint, std::vector<float>(n * static_cast<std::size_t>(comm.size())));
      comm.all_gather<float>(x.span(), all.span());
      take(all.content());
    }
    std::vector<float> content = x.content();
    if (what == 3) {
      const Block block = comm.block_of(comm.rank(), n);
      content = {content.begin() + static_cast<std::ptrdiff_t>(block.begin),
                 content.begin() + static_cast<std::ptrdiff_t>(block.end)};
    }
    take(content);
  }
  return results;
}

// Numbers of a run on GPUs and of the same calls on cores. NCCL and trees add in other orders.
inline void expect_alike(const std::vector<float>& results, const std::vector<float>& expected,
                         bool exact) {
  ASSERT_EQ(results.size(), expected.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    ASSERT_NEAR(results[i], expected[i], exact ? 0 : 1e-5) << "at " << i;
  }
}

// Pairs of ranks swap vectors: every pair if the ranks are a power of two.
inline void check_exchanges(Endpoint& endpoint) {
  const int p = endpoint.size();
  for (const std::size_t n : {0U, 1U, 300U, 100'001U}) {
    for (int distance = 1; distance < ((p & (p - 1)) == 0 ? p : 2); ++distance) {
      const int peer = endpoint.rank() ^ distance;
      Vector out(endpoint, uniform_numbers(n, static_cast<std::uint64_t>(endpoint.rank())));
      Vector in(endpoint, std::vector<float>(n));
      endpoint.comm().sendrecv<float>(peer, 1, out.span(), in.span());
      EXPECT_EQ(in.content(), uniform_numbers(n, static_cast<std::uint64_t>(peer)));
    }
  }
}

// Ranks get complete data even while a device still writes it: the sum of rank + i over p ranks is
// p (p-1)/2 + i p.
inline void check_order_with_kernels(Endpoint& endpoint) {
  constexpr std::size_t kElements = 100'000;
  const int p = endpoint.size();
  Vector x(endpoint, std::vector<float>(kElements));
  for (int i = 0; i < 5; ++i) {
    endpoint.device().fill(kElements, static_cast<float>(endpoint.rank() + i), x.span().data());
    endpoint.comm().all_reduce(x.span());
    endpoint.device().axpby(kElements, 2.0F, x.span().data(), 0.0F, x.span().data());
    EXPECT_EQ(x.content().back(), static_cast<float>(p * (p - 1) + 2 * i * p));
  }
}

}  // namespace hetsgd::conformance
