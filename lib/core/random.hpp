// Counter-based random numbers: a draw is a pure function of (seed, purpose, a, b, index).
//
// Purpose : the same seed gives the same data order, initial parameters, stragglers and peers on
//           every cluster, in any order of evaluation and from any thread, with no state to share.
// Source  : Philox4x32-10 (core/philox.hpp). The distributions are our own: those of <random>
//           differ between standard libraries.
#pragma once

#include <array>
#include <cstdint>

#include "core/philox.hpp"

namespace hetsgd {

// Four independent 32-bit words at one counter.
using RandomBlock = std::array<std::uint32_t, 4>;

// One Philox block: key (seed), counter (purpose, a, b, index). Thread-safe, no state.
RandomBlock random_block(std::uint64_t seed, Purpose purpose, std::uint32_t a, std::uint32_t b,
                         std::uint32_t index);

// A sequential reader of the blocks at (seed, purpose, a, b). Cheap to construct and copy.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t a = 0, std::uint32_t b = 0)
      : seed_(seed ^ ((a >> 32) * 0x9E3779B97F4A7C15ULL)),
        purpose_(purpose),
        a_(static_cast<std::uint32_t>(a)),
        b_(b) {}

  std::uint32_t next_u32();
  std::uint64_t next_u64();
  double uniform();  // [0, 1), 53 bits
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  std::uint64_t below(std::uint64_t n);       // [0, n), unbiased (Lemire 2019); n > 0
  double normal();                            // N(0, 1), Box-Muller
  double exponential();                       // rate 1
  double lognormal(double mu, double sigma);  // exp(N(mu, sigma^2))
  double pareto(double scale, double shape);  // density ~ x^-(shape+1) for x >= scale
  double gamma(double shape);                 // scale 1, Marsaglia-Tsang 2000

 private:
  std::uint64_t seed_;
  Purpose purpose_;
  std::uint32_t a_, b_;
  std::uint32_t index_ = 0;
  RandomBlock block_{};
  unsigned used_ = 4;
};

// A pseudo-random bijection of [0, n): position -> element, for every (seed, round).
//
// An epoch's order needs no stored permutation and no communication: any worker computes any slice.
// Source: a 6-round Feistel network on the enclosing even number of bits, keyed by two
// Philox blocks, with cycle walking (Black & Rogaway 2002): under 4 walks on average.
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t seed, Purpose purpose, std::uint32_t round);
  std::uint64_t operator()(std::uint64_t position) const;  // position < n
  std::uint64_t size() const { return n_; }

 private:
  std::uint64_t n_;
  unsigned half_bits_;
  std::uint64_t mask_;
  std::array<std::uint32_t, 8> keys_;
};

}  // namespace hetsgd
