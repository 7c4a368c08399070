// Who decides about the labels of made-up click data, and what the best model could reach.
//
// An id has a ~ N(0, 1) and v ~ N(0, I_4), both times (1 + rank / 1000)^-1/2: rare ids say little, so
// that nothing is in the ceiling that nobody can learn. A missing value is an id, of rank 0. With
//   L = sum_f a_f,   Q = sum_{f < g} v_f . v_g,   H = sum_j w_j x_j  (w ~ N(0, 1), x dense features),
// each less its mean and divided by its deviation over the first 65,536 rows,
//   z = mu + sqrt(V) (sqrt(.45) L + sqrt(.40) Q + sqrt(.15) H),   label = [uniform < sigmoid(z)].
// mu is such that over these rows the mean of sigmoid(z) is the share of positives.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/fields.hpp"

namespace hetsgd {

inline constexpr std::size_t kTeacherWidth = 4;
inline constexpr std::uint64_t kTeacherRows = 65536;
// Parts of the log odds' variance.
inline constexpr double kLinearPart = .45, kPairPart = .40, kNumberPart = .15;

// What an id says.
struct IdEffect {
  float linear = 0;                         // a
  std::array<float, kTeacherWidth> pair{};  // v
};

// L, Q and H of a row, as they are.
struct TeacherTerms {
  double linear = 0, pairs = 0, numbers = 0;
};

class Teacher {
 public:
  // `rows`: the terms to standardise on, at least one.
  Teacher(std::span<const TeacherTerms> rows, double signal, double positives);

  double log_odds(const TeacherTerms& terms) const;  // z
  double log_odds_without_pairs(const TeacherTerms& terms) const;
  // Less mean, by deviation.
  TeacherTerms standardised(const TeacherTerms& terms) const;

 private:
  double part(const TeacherTerms& standard, double pair_part) const;

  TeacherTerms mean_, scale_;
  double deviation_;  // of z
  double mu_ = 0;
};

// f, rank and generation name an id.
IdEffect effect_of(std::uint64_t seed, std::size_t field, std::uint32_t rank,
                   std::uint32_t generation);
// w.
std::vector<double> number_weights(std::uint64_t seed, std::size_t columns);
// 1 / (1 + e^-z)
double sigmoid(double z);

// What scores reach on rows with these labels.
struct Ceiling {
  double auc = 0, logloss = 0;
};
// AUC (equal scores count half) and mean log loss of log odds; NaN without both kinds of label.
Ceiling ceiling_of(std::span<const double> log_odds, std::span<const std::uint8_t> positive);

}  // namespace hetsgd
