#include "model/labels/label_hash.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {

namespace {

// Permutation numbers that each generation of functions reserves.
constexpr std::uint32_t kPermutations = 1U << 12;
// Tries to find a bin that lends its code.
constexpr std::uint32_t kLenders = 64;

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
  lane_codes().load(count, inputs_, x, block.x.data());
}

void LabelHash::hash(Block& block) const {
  const std::size_t codes = options_.all_codes();
  if (options_.kind == HashKind::simhash) {
    lane_codes().signs(codes, width_, place_.data(), sign_.data(), block.x.data(),
                       block.code.data());
  } else {
    lane_codes().winners(codes, width_, place_.data(), block.x.data(), block.code.data(),
                         block.best.data());
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
  const std::int32_t* const code = &block.code[table * options_.codes * kLanes];
  lane_codes().buckets(options_.codes, stride_, code, bucket);
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
