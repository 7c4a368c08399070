#include "data/ctr_teacher.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/ctr_laws.hpp"

namespace hetsgd {

namespace {

constexpr double kHalfRank = 1000;  // the rank whose effect is 1 / sqrt(2)
constexpr int kBisections = 60;
constexpr double kFarthest = 50;  // log odds

// log(1 + e^z)
double softplus(double z) { return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z))); }

// 1 / deviation, or 0 if the deviation is 0.
double inverse_deviation(double squares, double mean, double count) {
  const double variance = squares / count - mean * mean;
  return variance > 0 ? 1 / std::sqrt(variance) : 0;
}

}  // namespace

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

Teacher::Teacher(std::span<const TeacherTerms> rows, double signal, double positives)
    : deviation_(std::sqrt(signal)) {
  const auto count = static_cast<double>(rows.size());
  for (const auto term : {&TeacherTerms::linear, &TeacherTerms::pairs, &TeacherTerms::numbers}) {
    double sum = 0, squares = 0;
    for (const TeacherTerms& row : rows) sum += row.*term;
    mean_.*term = sum / count;
    for (const TeacherTerms& row : rows) {
      squares += (row.*term - mean_.*term) * (row.*term - mean_.*term);
    }
    scale_.*term = inverse_deviation(squares, 0, count);
  }
  std::vector<double> z;
  for (const TeacherTerms& row : rows) z.push_back(log_odds(row));
  double low = -kFarthest, high = kFarthest;
  for (int i = 0; i < kBisections; ++i) {
    mu_ = (low + high) / 2;
    double sum = 0;
    for (const double value : z) sum += sigmoid(mu_ + value);
    (sum < positives * count ? low : high) = mu_;
  }
}

TeacherTerms Teacher::standardised(const TeacherTerms& terms) const {
  return {(terms.linear - mean_.linear) * scale_.linear, (terms.pairs - mean_.pairs) * scale_.pairs,
          (terms.numbers - mean_.numbers) * scale_.numbers};
}

double Teacher::part(const TeacherTerms& standard, double pair_part) const {
  return mu_ + deviation_ * (std::sqrt(kLinearPart) * standard.linear +
                             std::sqrt(pair_part) * standard.pairs +
                             std::sqrt(kNumberPart) * standard.numbers);
}

double Teacher::log_odds(const TeacherTerms& terms) const {
  return part(standardised(terms), kPairPart);
}

double Teacher::log_odds_without_pairs(const TeacherTerms& terms) const {
  return part(standardised(terms), 0);
}

IdEffect effect_of(std::uint64_t seed, std::size_t field, std::uint32_t rank,
                   std::uint32_t generation) {
  RandomStream random(seed, Purpose::generator, rank,
                      click_word(ClickStream::effect, field, generation));
  const double weight = 1 / std::sqrt(1 + rank / kHalfRank);
  IdEffect effect;
  effect.linear = static_cast<float>(weight * random.normal());
  for (float& value : effect.pair) value = static_cast<float>(weight * random.normal());
  return effect;
}

std::vector<double> number_weights(std::uint64_t seed, std::size_t columns) {
  RandomStream random(seed, Purpose::generator, 0, click_word(ClickStream::weight));
  std::vector<double> weights;
  for (std::size_t k = 0; k < columns; ++k) weights.push_back(random.normal());
  return weights;
}

Ceiling ceiling_of(std::span<const double> log_odds, std::span<const std::uint8_t> positive) {
  HETSGD_CHECK_EQ(log_odds.size(), positive.size());
  std::vector<std::uint32_t> order(log_odds.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return log_odds[i]; });
  double rank_sum = 0, positives = 0, loss = 0;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    double here = 0;
    for (; end < order.size() && log_odds[order[end]] == log_odds[order[begin]]; ++end) {
      here += positive[order[end]];
    }
    positives += here;
    rank_sum += here * static_cast<double>(begin + end + 1) / 2;  // the mean of these ranks, from 1
  }
  for (std::size_t i = 0; i < log_odds.size(); ++i) {
    loss += softplus(positive[i] != 0 ? -log_odds[i] : log_odds[i]);
  }
  const auto rows = static_cast<double>(order.size());
  return {(rank_sum - positives * (positives + 1) / 2) / (positives * (rows - positives)),
          loss / rows};
}

}  // namespace hetsgd
