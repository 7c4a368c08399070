// The teacher that draws the labels of synthetic click data, and the quality that the best model
// could reach.
//
// An id has a ~ N(0, 1) and v ~ N(0, I_4), both times (1 + rank / 1000)^-1/2. Rare ids matter
// little, so that the ceiling contains nothing that cannot be learnt. A missing value is an id of
// rank 0. With
//   L = sum_f a_f,   Q = sum_{f < g} v_f . v_g,   H = sum_j w_j x_j
// where w ~ N(0, 1) and x are the dense features, each standardised by its mean and deviation over
// the first 65,536 rows,
//   z = mu + sqrt(V) (sqrt(.45) L + sqrt(.40) Q + sqrt(.15) H),   label = [uniform < sigmoid(z)].
// mu is chosen so that over these rows the mean of sigmoid(z) is the share of positives.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/fields.hpp"

namespace hetsgd {

inline constexpr std::size_t kTeacherWidth = 4;
inline constexpr std::uint64_t kTeacherRows = 65536;
// Shares of the terms in the variance of the log odds.
inline constexpr double kLinearPart = .45, kPairPart = .40, kNumberPart = .15;

// The effect of an id on the label.
struct IdEffect {
  float linear = 0;                         // a
  std::array<float, kTeacherWidth> pair{};  // v
};

// L, Q and H of a row, not standardised.
struct TeacherTerms {
  double linear = 0, pairs = 0, numbers = 0;
};

class Teacher {
 public:
  // `rows` are the terms to standardise on; at least one.
  Teacher(std::span<const TeacherTerms> rows, double signal, double positives);

  double log_odds(const TeacherTerms& terms) const;  // z
  double log_odds_without_pairs(const TeacherTerms& terms) const;
  // Each term minus its mean, divided by its deviation.
  TeacherTerms standardised(const TeacherTerms& terms) const;

 private:
  double part(const TeacherTerms& standard, double pair_part) const;

  TeacherTerms mean_, scale_;
  double deviation_;  // of z
  double mu_ = 0;
};

// The effect of the id that field, rank and generation name.
IdEffect effect_of(std::uint64_t seed, std::size_t field, std::uint32_t rank,
                   std::uint32_t generation);
// The weights w of the dense features.
std::vector<double> number_weights(std::uint64_t seed, std::size_t columns);
// The logistic function 1 / (1 + e^-z).
double sigmoid(double z);

// The quality of scores on rows with these labels.
struct Ceiling {
  double auc = 0, logloss = 0;
};
// AUC (equal scores count half) and mean log loss of log odds. NaN unless both kinds of label
// occur.
Ceiling ceiling_of(std::span<const double> log_odds, std::span<const std::uint8_t> positive);

}  // namespace hetsgd
