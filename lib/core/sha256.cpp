#include "core/sha256.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace hetsgd {

namespace {

// The first 64 primes give the constants: the first 32 bits of the fractional parts of their square
// roots (the initial state, of the first eight) and cube roots (one per round).
struct Constants {
  std::array<std::uint32_t, 8> initial{};
  std::array<std::uint32_t, 64> round{};
};

// floor(root * 2^32) mod 2^32 of the k-th root of p, by bisection in whole numbers.
std::uint32_t fraction_of_root(std::uint64_t p, int k) {
  __extension__ using Wide = unsigned __int128;
  std::uint64_t low = 0, high = std::uint64_t{1} << 37;  // the root is below 32
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    // middle^k <= p * 2^(32 k); for k = 3 both sides are divided by 2^32 with what is left compared.
    const Wide square = static_cast<Wide>(middle) * middle;
    bool below = square <= static_cast<Wide>(p) << 64;
    if (k == 3) {
      // square < 2^74 and middle < 2^37: the product of the halves does not overflow.
      const Wide top = (square >> 32) * middle, rest = (square & 0xFFFFFFFFU) * middle;
      below = top + (rest >> 32) < static_cast<Wide>(p) << 64;
    }
    (below ? low : high) = middle;
  }
  return static_cast<std::uint32_t>(low);
}

const Constants& constants() {
  static const Constants all = [] {
    Constants made;
    std::size_t count = 0;
    for (std::uint64_t p = 2; count < made.round.size(); ++p) {
      bool is_prime = true;
      for (std::uint64_t d = 2; d * d <= p; ++d) is_prime = is_prime && p % d != 0;
      if (!is_prime) continue;
      if (count < made.initial.size()) made.initial[count] = fraction_of_root(p, 2);
      made.round[count++] = fraction_of_root(p, 3);
    }
    return made;
  }();
  return all;
}

}  // namespace

Sha256::Sha256() : state_(constants().initial) {}

void Sha256::absorb(const unsigned char* block) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t t = 0; t < 16; ++t) {
    w[t] = static_cast<std::uint32_t>(block[4 * t]) << 24 |
           static_cast<std::uint32_t>(block[4 * t + 1]) << 16 |
           static_cast<std::uint32_t>(block[4 * t + 2]) << 8 | block[4 * t + 3];
  }
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  const std::array<std::uint32_t, 64>& k = constants().round;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + k[t] + w[t];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> sum{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < sum.size(); ++i) state_[i] += sum[i];
}

void Sha256::add(std::string_view bytes) {
  std::size_t filled = length_ % block_.size();
  length_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t taken = std::min(bytes.size(), block_.size() - filled);
    std::memcpy(block_.data() + filled, bytes.data(), taken);
    bytes.remove_prefix(taken);
    filled += taken;
    if (filled < block_.size()) return;
    absorb(block_.data());
    filled = 0;
  }
}

std::string Sha256::value() {
  const std::uint64_t bits = 8 * length_;
  const std::size_t filled = length_ % block_.size();
  std::string padding(filled < 56 ? 56 - filled : 120 - filled, '\0');
  padding.front() = '\x80';
  for (int shift = 56; shift >= 0; shift -= 8) padding += static_cast<char>(bits >> shift);
  add(padding);
  std::string text;
  for (const std::uint32_t word : state_) text += fmt::format("{:08x}", word);
  return text;
}

}  // namespace hetsgd
