#include "model/initial_rows.hpp"

#include <array>
#include <cmath>
#include <numbers>

#include "core/random.hpp"

namespace hetsgd {

namespace {

// The inverse distribution function of N(0, 1) truncated to [-2, 2], as a cubic Hermite table: its
// nodes solve Phi(x) = p by Newton's method, its slopes are 1/density. Error below 1e-8, and one
// table look-up per number instead of a logarithm, a root and a cosine (models have up to 10^8 of
// them).
class TruncatedNormal {
 public:
  TruncatedNormal() {
    const double low = normal_cdf(-kCut), mass = normal_cdf(kCut) - low;
    double x = -kCut;
    for (std::size_t i = 0; i <= kIntervals; ++i) {
      const double p = low + mass * static_cast<double>(i) / kIntervals;
      for (int step = 0; step < 8; ++step) x -= (normal_cdf(x) - p) / density(x);
      value_[i] = x;
      slope_[i] = mass / density(x) / kIntervals;
    }
  }

  // u in (0, 1) -> (-2, 2)
  double operator()(double u) const {
    const double position = u * kIntervals;
    const auto i = static_cast<std::size_t>(position);
    const double t = position - static_cast<double>(i);
    const double rise = value_[i + 1] - value_[i];
    const double curve =
        t * (slope_[i] + slope_[i + 1] - 2 * rise) + 3 * rise - 2 * slope_[i] - slope_[i + 1];
    return value_[i] + t * (slope_[i] + t * curve);
  }

 private:
  static constexpr double kCut = 2;
  static constexpr std::size_t kIntervals = 4096;

  static double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
  static double density(double x) {
    return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  }

  std::array<double, kIntervals + 1> value_{};
  std::array<double, kIntervals + 1> slope_{};
};

}  // namespace

double truncated_normal(double u) {
  static const TruncatedNormal quantile;
  return quantile(u);
}

// Column j takes word j % 4 of the block at (value, field, j / 4).
template <class Real>
void TableRows::make(std::uint32_t field, std::uint32_t row, std::size_t begin, std::size_t end,
                     Real* to) const {
  constexpr std::size_t kWords = 4;
  const std::uint32_t value = keys.value_of(field, row);
  const std::size_t random_end = std::min(end, drawn);
  std::size_t j = begin;
  while (j < random_end) {
    const RandomBlock words = random_block(seed, Purpose::initial_rows, value, field,
                                           static_cast<std::uint32_t>(j / kWords));
    for (std::size_t word = j % kWords; word < kWords && j < random_end; ++word, ++j) {
      const double u = (static_cast<double>(words[word]) + 0.5) * 0x1.0p-32;
      to[j - begin] = static_cast<Real>(std * truncated_normal(u));
    }
  }
  for (; j < end; ++j) to[j - begin] = 0;
}

template void TableRows::make<float>(std::uint32_t, std::uint32_t, std::size_t, std::size_t,
                                     float*) const;
template void TableRows::make<double>(std::uint32_t, std::uint32_t, std::size_t, std::size_t,
                                      double*) const;

}  // namespace hetsgd
