#include "model/labels/label_hash.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.hpp"
#include "core/random.hpp"
#include "linalg/cpu/lanes.hpp"

namespace hetsgd {

namespace {

// Permutation numbers that each generation of functions reserves.
constexpr std::uint32_t kPermutations = 1U << 12;
// Tries to find a bin that lends its code.
constexpr std::uint32_t kLenders = 64;

// A float per lane. Machines with shorter registers take several registers.
typedef float Floats __attribute__((vector_size(16 * sizeof(float))));
typedef std::int32_t Ints __attribute__((vector_size(16 * sizeof(std::int32_t))));

template <class Number, class Lanes>
void load_lanes(const Number* from, Lanes& to) {
  std::memcpy(&to, from, sizeof(to));
}
template <class Lanes, class Number>
void store_lanes(const Lanes& from, Number* to) {
  std::memcpy(to, &from, sizeof(from));
}

}  // namespace

std::uint32_t HashOptions::stride() const {
  if (kind == HashKind::simhash) return 2;
  return 1U << static_cast<unsigned>(std::floor(std::log(static_cast<double>(bin))));
}

std::uint64_t HashOptions::buckets() const {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 32;
  const std::uint64_t largest = kind == HashKind::simhash ? 1 : bin - 1;
  std::uint64_t last = 0;
  for (std::uint32_t j = 0; j < codes; ++j) last = std::min(kMost, last * stride() + largest);
  return last + 1;
}

LabelHash::LabelHash(const HashOptions& options, std::size_t inputs, std::uint64_t seed,
                     std::uint32_t generation)
    : options_(options),
      inputs_(inputs),
      seed_(seed),
      generation_(generation),
      stride_(static_cast<std::int32_t>(options.stride())) {
  const std::size_t codes = options.all_codes();
  const bool is_dwta = options.kind == HashKind::dwta;
  HETSGD_CHECK_LE(is_dwta ? options.bin : 1U, inputs);
  width_ = is_dwta ? options.bin : (inputs + 2) / 3;
  const std::size_t bins = is_dwta ? inputs / options.bin : 1;  // D, of a permutation
  for (std::size_t c = 0; c < codes; ++c) {
    const auto p = static_cast<std::uint32_t>(c / bins);
    const Permutation order(inputs, seed, Purpose::hashing, kPermutations * generation + p);
    for (std::size_t j = 0; j < width_; ++j) {
      place_.push_back(static_cast<std::uint32_t>(order(c % bins * width_ + j) * kLanes));
    }
    if (is_dwta) continue;
    RandomStream signs(seed, Purpose::hashing, generation, p + 1);
    for (std::size_t j = 0; j < width_; ++j) sign_.push_back(signs.below(2) == 0 ? 1.0F : -1.0F);
  }
}

LabelHash::Block LabelHash::make_block() const {
  const std::size_t codes = options_.all_codes() * kLanes;
  return {std::vector<float>(inputs_ * kLanes), std::vector<std::int32_t>(codes),
          std::vector<float>(codes)};
}

// Lanes without a vector keep their old contents, since their codes are never read.
void LabelHash::load(std::size_t count, const float* x, Block& block) const {
  cpu::transpose(count, inputs_, x, inputs_, block.x.data(), kLanes);
}

void LabelHash::hash(Block& block) const {
  constexpr std::size_t kUsualBin = 8;
  if (options_.kind == HashKind::simhash) {
    hash_simhash(block);
  } else if (width_ == kUsualBin) {
    hash_dwta<kUsualBin>(block);
  } else {
    hash_dwta<0>(block);
  }
}

// NaN is larger than no other value, so it never wins.
template <std::size_t bin>
void LabelHash::hash_dwta(Block& block) const {
  const std::size_t width = bin == 0 ? width_ : bin;
  for (std::size_t c = 0; c < options_.all_codes(); ++c) {
    Floats best = Floats{} - std::numeric_limits<float>::infinity();
    Ints code{};
    const std::uint32_t* const place = &place_[c * width];
#pragma GCC unroll 8
    for (std::size_t j = 0; j < width; ++j) {
      Floats x;
      load_lanes(&block.x[place[j]], x);
      const Ints wins = x > best;
      best = wins ? x : best;
      code = wins ? Ints{} + static_cast<std::int32_t>(j) : code;
    }
    store_lanes(code, &block.code[c * kLanes]);
    store_lanes(best, &block.best[c * kLanes]);
  }
}

void LabelHash::hash_simhash(Block& block) const {
  for (std::size_t c = 0; c < options_.all_codes(); ++c) {
    Floats sum{};
    for (std::size_t j = 0; j < width_; ++j) {
      Floats x;
      load_lanes(&block.x[place_[c * width_ + j]], x);
      sum += sign_[c * width_ + j] * x;
    }
    const Ints negative = sum < Floats{};  // -1 where it is
    store_lanes(-negative, &block.code[c * kLanes]);
  }
}

bool LabelHash::densify(std::size_t lane, Block& block) const {
  const std::size_t codes = options_.all_codes();
  const auto draw = [&](std::size_t c, std::uint32_t k) {
    return random_block(seed_, Purpose::hashing, ~generation_, static_cast<std::uint32_t>(c), k)[0];
  };
  bool is_blind = true;
  const auto is_empty = [&](std::size_t c) { return !(block.best[c * kLanes + lane] > 0); };
  for (std::size_t c = 0; c < codes; ++c) is_blind &= is_empty(c);
  for (std::size_t c = 0; c < codes; ++c) {
    if (!is_empty(c)) continue;
    std::int32_t& code = block.code[c * kLanes + lane];
    code = static_cast<std::int32_t>(draw(c, 0) % options_.bin);
    for (std::uint32_t k = 1; k <= kLenders && !is_blind; ++k) {
      const std::size_t lender = draw(c, k) % codes;
      if (is_empty(lender)) continue;
      code = block.code[lender * kLanes + lane];
      break;
    }
  }
  return is_blind;
}

void LabelHash::buckets(const Block& block, std::size_t table, std::uint32_t* bucket) const {
  Ints sum{};
  for (std::size_t j = 0; j < options_.codes; ++j) {
    Ints code;
    load_lanes(&block.code[(table * options_.codes + j) * kLanes], code);
    sum = sum * stride_ + code;
  }
  store_lanes(sum, bucket);
}

std::size_t LabelHash::buckets_of(std::size_t count, const float* x, bool are_queries,
                                  std::uint32_t* out, std::size_t vector_step,
                                  std::size_t table_step) const {
  const bool densifies = are_queries && options_.kind == HashKind::dwta;
  Block block = make_block();
  std::size_t blind = 0;
  for (std::size_t begin = 0; begin < count; begin += kLanes) {
    const std::size_t lanes = std::min(kLanes, count - begin);
    load(lanes, x + begin * inputs_, block);
    hash(block);
    for (std::size_t lane = 0; lane < lanes && densifies; ++lane) {
      if (densify(lane, block)) ++blind;
    }
    for (std::size_t t = 0; t < options_.tables; ++t) {
      std::uint32_t bucket[kLanes];
      buckets(block, t, bucket);
      std::uint32_t* const to = &out[begin * vector_step + t * table_step];
      if (lanes == kLanes && vector_step == 1) {
        std::copy_n(bucket, kLanes, to);
        continue;
      }
      for (std::size_t lane = 0; lane < lanes; ++lane) to[lane * vector_step] = bucket[lane];
    }
  }
  return blind;
}

void LabelHash::rows(std::size_t count, const float* x, std::uint32_t* out, std::size_t vector_step,
                     std::size_t table_step) const {
  buckets_of(count, x, false, out, vector_step, table_step);
}

std::size_t LabelHash::queries(std::size_t count, const float* x, std::uint32_t* out,
                               std::size_t vector_step, std::size_t table_step) const {
  return buckets_of(count, x, true, out, vector_step, table_step);
}

std::vector<std::uint8_t> LabelHash::codes_of(const float* x, bool is_query) const {
  Block block = make_block();
  load(1, x, block);
  hash(block);
  if (is_query && options_.kind == HashKind::dwta) densify(0, block);
  std::vector<std::uint8_t> codes;
  for (std::size_t c = 0; c < options_.all_codes(); ++c) {
    codes.push_back(static_cast<std::uint8_t>(block.code[c * kLanes]));
  }
  return codes;
}

std::vector<std::uint8_t> LabelHash::row_codes(const float* x) const { return codes_of(x, false); }
std::vector<std::uint8_t> LabelHash::query_codes(const float* x) const { return codes_of(x, true); }

}  // namespace hetsgd
