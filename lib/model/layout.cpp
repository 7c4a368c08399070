// The layout of parameters, and their initial values: truncated normal numbers, one 32-bit random word each.
#include "model/layout.hpp"

#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/parallel.hpp"

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

// The variance of N(0, 1) truncated to [-2, 2]: 1 - 2 * 2 density(2) / (Phi(2) - Phi(-2)).
constexpr double kTruncatedVariance = 0.7737413035499232;

// Number i of the flat vector takes word i % 4 of the block at counter i / 4.
constexpr std::size_t kWords = 4;
constexpr std::size_t kChunk = std::size_t{1} << 16;  // numbers per task

}  // namespace

void Layout::add(ParameterBlock block) {
  block.offset = size;
  size += block.size();
  real_size += static_cast<double>(block.rows) * static_cast<double>(block.cols);
  sparse += block.row_sparse() ? 1 : 0;
  blocks.push_back(std::move(block));
}

double initial_rms(const Layout& layout) {
  double squares = 0, constants = 0;
  for (const ParameterBlock& block : layout.blocks) {
    squares += static_cast<double>(block.rows * (block.cols - block.zero_cols)) * block.init_std *
               block.init_std;
    constants += static_cast<double>(block.size()) * block.initial_value * block.initial_value;
  }
  return std::sqrt((kTruncatedVariance * squares + constants) / static_cast<double>(layout.size));
}

template <class Real>
std::vector<Real> initial_parameters(const Layout& layout, std::uint64_t seed,
                                     std::optional<int> threads) {
  static const TruncatedNormal quantile;
  std::vector<Real> parameters(layout.size);
  for (const ParameterBlock& block : layout.blocks) {
    const double std = block.init_std;
    HETSGD_CHECK_LE(0.0, std);
    const std::size_t end = block.offset + block.size();
    if (std == 0) {
      if (block.initial_value == 0) continue;
      std::fill(parameters.begin() + static_cast<std::ptrdiff_t>(block.offset),
                parameters.begin() + static_cast<std::ptrdiff_t>(end),
                static_cast<Real>(block.initial_value));
      continue;
    }
    const std::size_t first_chunk = block.offset / kChunk, drawn = block.cols - block.zero_cols;
    parallel_tasks(threads, (end + kChunk - 1) / kChunk - first_chunk, [&](std::size_t c) {
      std::size_t i = std::max(block.offset, (first_chunk + c) * kChunk);
      const std::size_t stop = std::min(end, (first_chunk + c + 1) * kChunk);
      while (i < stop) {
        const std::uint64_t counter = i / kWords;
        const RandomBlock words =
            random_block(seed, Purpose::initial_parameters, static_cast<std::uint32_t>(counter),
                         static_cast<std::uint32_t>(counter >> 32), 0);
        for (std::size_t word = i % kWords; word < kWords && i < stop; ++word, ++i) {
          if (block.zero_cols > 0 && (i - block.offset) % block.cols >= drawn) continue;
          const double u = (static_cast<double>(words[word]) + 0.5) * 0x1.0p-32;
          parameters[i] = static_cast<Real>(std * quantile(u));
        }
      }
    });
  }
  return parameters;
}

template std::vector<float> initial_parameters<float>(const Layout&, std::uint64_t,
                                                      std::optional<int>);
template std::vector<double> initial_parameters<double>(const Layout&, std::uint64_t,
                                                        std::optional<int>);

}  // namespace hetsgd
