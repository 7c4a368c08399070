#include "core/random.hpp"

#include <bit>
#include <cmath>
#include <numbers>

#include "core/error.hpp"

namespace hetsgd {

RandomBlock random_block(std::uint64_t seed, Purpose purpose, std::uint32_t a, std::uint32_t b,
                         std::uint32_t index) {
  return std::to_array(philox_words(seed, purpose, a, b, index).at);
}

std::uint32_t RandomStream::next_u32() {
  if (used_ == 4) {
    block_ = random_block(seed_, purpose_, a_, b_, index_++);
    used_ = 0;
  }
  return block_[used_++];
}

std::uint64_t RandomStream::next_u64() {
  const std::uint64_t low = next_u32();
  return low | (static_cast<std::uint64_t>(next_u32()) << 32);
}

double RandomStream::uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

std::uint64_t RandomStream::below(std::uint64_t n) {
  HETSGD_CHECK_LT(0U, n);
  __extension__ using Wide = unsigned __int128;
  Wide product = static_cast<Wide>(next_u64()) * n;
  if (static_cast<std::uint64_t>(product) < n) {
    const std::uint64_t threshold = (0 - n) % n;
    while (static_cast<std::uint64_t>(product) < threshold) {
      product = static_cast<Wide>(next_u64()) * n;
    }
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double RandomStream::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

double RandomStream::exponential() { return -std::log(1.0 - uniform()); }

double RandomStream::lognormal(double mu, double sigma) { return std::exp(mu + sigma * normal()); }

double RandomStream::pareto(double scale, double shape) {
  return scale * std::pow(1.0 - uniform(), -1.0 / shape);
}

double RandomStream::gamma(double shape) {
  if (shape < 1.0) return gamma(shape + 1.0) * std::pow(1.0 - uniform(), 1.0 / shape);
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = normal();
    const double t = 1.0 + c * x;
    if (t <= 0.0) continue;
    const double v = t * t * t;
    if (std::log(1.0 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, Purpose purpose, std::uint32_t round)
    : n_(n) {
  HETSGD_CHECK_LT(0U, n);
  const auto bits = static_cast<unsigned>(std::bit_width(n - 1));
  half_bits_ = (bits + 1) / 2;
  if (half_bits_ == 0) half_bits_ = 1;
  mask_ = (std::uint64_t{1} << half_bits_) - 1;
  const RandomBlock first = random_block(seed, purpose, round, 0xFE157E1U, 0);
  const RandomBlock second = random_block(seed, purpose, round, 0xFE157E1U, 1);
  keys_ = {first[0], first[1], first[2], first[3], second[0], second[1], second[2], second[3]};
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  // Round function: the 64-bit finaliser of MurmurHash3, keyed. Six rounds mix both halves fully.
  const auto mix = [](std::uint64_t x, std::uint32_t key) {
    x += key;
    x *= 0xFF51AFD7ED558CCDULL;
    x ^= x >> 33;
    x *= 0xC4CEB9FE1A85EC53ULL;
    return x ^ (x >> 29);
  };
  std::uint64_t value = position;
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask_;
    for (unsigned r = 0; r < 6; ++r) {
      const std::uint64_t next = left ^ (mix(right, keys_[r]) & mask_);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= n_);
  return value;
}

}  // namespace hetsgd
