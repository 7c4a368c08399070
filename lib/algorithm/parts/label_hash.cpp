#include "algorithm/parts/label_hash.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {

namespace {

// Generations of functions, and the permutations of each.
constexpr std::uint32_t kPermutations = 1U << 12;
// Tries to find a bin that lends its code.
constexpr std::uint32_t kLenders = 64;

}  // namespace

std::uint32_t HashOptions::stride() const {
  if (kind == HashKind::simhash) return 2;
  if (packing == Packing::exact) return bin;
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
    : options_(options), inputs_(inputs), seed_(seed), generation_(generation) {
  const std::size_t codes = options.all_codes();
  const bool is_dwta = options.kind == HashKind::dwta;
  HETSGD_CHECK_LE(is_dwta ? options.bin : 1U, inputs);
  width_ = is_dwta ? options.bin : (inputs + 2) / 3;
  const std::size_t bins = is_dwta ? inputs / options.bin : 1;  // D, of a permutation
  for (std::size_t c = 0; c < codes; ++c) {
    const auto p = static_cast<std::uint32_t>(c / bins);
    const Permutation order(inputs, seed, Purpose::hashing, kPermutations * generation + p);
    for (std::size_t j = 0; j < width_; ++j) {
      coordinate_.push_back(static_cast<std::uint32_t>(order(c % bins * width_ + j)));
    }
    if (is_dwta) continue;
    RandomStream signs(seed, Purpose::hashing, generation, p + 1);
    for (std::size_t j = 0; j < width_; ++j) sign_.push_back(signs.below(2) == 0 ? 1.0F : -1.0F);
  }
}

LabelHash::Block LabelHash::make_block() const {
  const std::size_t codes = options_.all_codes() * kLanes;
  return {std::vector<float>(inputs_ * kLanes), std::vector<std::uint8_t>(codes),
          std::vector<std::uint8_t>(codes)};
}

// Lanes without a vector keep what they have: nobody asks for their codes.
void LabelHash::load(std::size_t count, const float* x, Block& block) const {
  for (std::size_t lane = 0; lane < count; ++lane) {
    for (std::size_t i = 0; i < inputs_; ++i) block.x[i * kLanes + lane] = x[lane * inputs_ + i];
  }
}

void LabelHash::hash(Block& block) const {
  options_.kind == HashKind::dwta ? hash_dwta(block) : hash_simhash(block);
}

// A number that is not one is larger than nothing, so it never wins.
void LabelHash::hash_dwta(Block& block) const {
  for (std::size_t c = 0; c < options_.all_codes(); ++c) {
    std::array<float, kLanes> best;
    std::array<std::int32_t, kLanes> place{};
    best.fill(-std::numeric_limits<float>::infinity());
    for (std::size_t j = 0; j < width_; ++j) {
      const float* const x = &block.x[coordinate_[c * width_ + j] * kLanes];
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const bool wins = x[lane] > best[lane];
        best[lane] = wins ? x[lane] : best[lane];
        place[lane] = wins ? static_cast<std::int32_t>(j) : place[lane];
      }
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      block.code[c * kLanes + lane] = static_cast<std::uint8_t>(place[lane]);
      block.positive[c * kLanes + lane] = best[lane] > 0 ? 1 : 0;
    }
  }
}

void LabelHash::hash_simhash(Block& block) const {
  for (std::size_t c = 0; c < options_.all_codes(); ++c) {
    std::array<float, kLanes> sum{};
    for (std::size_t j = 0; j < width_; ++j) {
      const float sign = sign_[c * width_ + j];
      const float* const x = &block.x[coordinate_[c * width_ + j] * kLanes];
      for (std::size_t lane = 0; lane < kLanes; ++lane) sum[lane] += sign * x[lane];
    }
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      block.code[c * kLanes + lane] = sum[lane] < 0 ? 1 : 0;
    }
  }
}

bool LabelHash::densify(std::size_t lane, Block& block) const {
  const std::size_t codes = options_.all_codes();
  const auto draw = [&](std::size_t c, std::uint32_t k) {
    return random_block(seed_, Purpose::hashing, ~generation_, static_cast<std::uint32_t>(c), k)[0];
  };
  bool is_blind = true;
  for (std::size_t c = 0; c < codes; ++c) is_blind &= block.positive[c * kLanes + lane] == 0;
  for (std::size_t c = 0; c < codes; ++c) {
    if (block.positive[c * kLanes + lane] != 0) continue;
    std::uint8_t& code = block.code[c * kLanes + lane];
    code = static_cast<std::uint8_t>(draw(c, 0) % options_.bin);
    for (std::uint32_t k = 1; k <= kLenders && !is_blind; ++k) {
      const std::size_t lender = draw(c, k) % codes;
      if (block.positive[lender * kLanes + lane] == 0) continue;
      code = block.code[lender * kLanes + lane];
      break;
    }
  }
  return is_blind;
}

std::uint32_t LabelHash::bucket(const Block& block, std::size_t lane, std::size_t table) const {
  const std::uint32_t stride = options_.stride();
  std::uint32_t sum = 0;
  for (std::size_t j = 0; j < options_.codes; ++j) {
    sum = sum * stride + block.code[(table * options_.codes + j) * kLanes + lane];
  }
  return sum;
}

std::size_t LabelHash::buckets_of(std::size_t count, const float* x, bool are_queries,
                                  std::uint32_t* out, std::size_t vector_step,
                                  std::size_t table_step) const {
  const bool densifies =
      are_queries && options_.kind == HashKind::dwta && options_.empty_bins == EmptyBins::densify;
  Block block = make_block();
  std::size_t blind = 0;
  for (std::size_t begin = 0; begin < count; begin += kLanes) {
    const std::size_t lanes = std::min(kLanes, count - begin);
    load(lanes, x + begin * inputs_, block);
    hash(block);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      if (densifies && densify(lane, block)) ++blind;
      for (std::size_t t = 0; t < options_.tables; ++t) {
        out[(begin + lane) * vector_step + t * table_step] = bucket(block, lane, t);
      }
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
  if (is_query && options_.kind == HashKind::dwta && options_.empty_bins == EmptyBins::densify) {
    densify(0, block);
  }
  std::vector<std::uint8_t> codes;
  for (std::size_t c = 0; c < options_.all_codes(); ++c) codes.push_back(block.code[c * kLanes]);
  return codes;
}

std::vector<std::uint8_t> LabelHash::row_codes(const float* x) const { return codes_of(x, false); }
std::vector<std::uint8_t> LabelHash::query_codes(const float* x) const { return codes_of(x, true); }

}  // namespace hetsgd
