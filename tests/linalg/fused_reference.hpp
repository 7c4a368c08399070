// The algorithm of the fused softmax layer (lib/linalg/cuda/fused_softmax.hpp) on the host: two
// passes over tiles of labels, an online softmax, factors of 16 bits. Sums are those of doubles, so
// that what is rounded is only what the kernels round on purpose.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "linalg/cuda/fused_plan.hpp"
#include "linalg/cuda/index.hpp"
#include "linalg/reference.hpp"

namespace hetsgd::test {

// A format with so many significant bits, whose numbers are multiples of 2^least and below 2^above.
struct Format16 {
  int bits, least, above;

  double operator()(double x) const {
    if (x == 0 || !std::isfinite(x)) return x;
    const int unit = std::max(std::ilogb(x) + 1 - bits, least);
    const double near = std::ldexp(std::nearbyint(std::ldexp(x, -unit)), unit);
    return std::abs(near) < std::ldexp(1, above)
               ? near
               : std::copysign(std::numeric_limits<double>::infinity(), x);
  }
};
inline constexpr Format16 kFp16{11, -24, 16}, kBf16{8, -133, 128};
// Doubles as they are.
inline constexpr Format16 kUnrounded{53, -1074, 1024};

enum class Labels { none, some, many, shared };

struct FusedCase {
  std::size_t rows, outputs;
  Labels labels = Labels::some;
  float beta = 0;
  bool in_place = false;
  double bias = 0.3, input = 1, weight = 0.5;  // largest size of each
  std::size_t multiprocessors = 4;
};

// A layer of 128 inputs and a batch, both by row and by label.
struct FusedProblem {
  FusedProblem(const FusedCase& c, std::uint64_t seed);

  std::size_t labels_of(std::size_t row) const { return begin[row + 1] - begin[row]; }

  std::size_t rows = 0, outputs = 0;
  std::vector<float> A, W, b, G, g;
  std::vector<std::uint64_t> begin{0};  // of the labels of each row
  std::vector<std::uint32_t> labels;    // ascending in each row
  float scale = 0.125F, alpha = -0.75F, beta = 0;
};

inline FusedProblem::FusedProblem(const FusedCase& c, std::uint64_t seed)
    : rows(c.rows),
      outputs(c.outputs),
      A(random_vector<float>(c.rows * cuda::kFusedInputs, seed, -c.input / 4, c.input)),
      W(random_vector<float>(c.outputs * cuda::kFusedInputs, seed + 1, -c.weight, c.weight)),
      b(random_vector<float>(c.outputs, seed + 2, -c.bias, c.bias)),
      G(c.in_place ? W : random_vector<float>(W.size(), seed + 3)),
      g(c.in_place ? b : random_vector<float>(b.size(), seed + 4)),
      beta(c.beta) {
  for (float& a : A) a = std::max(a, 0.0F);
  RandomStream random(seed, Purpose::test, 79);
  for (std::size_t row = 0; row < c.rows; ++row) {
    std::size_t count = 1 + row % 4;
    if (row % 7 == 3 || c.labels == Labels::none) count = 0;
    if (c.labels == Labels::many && row % 5 == 0) count = c.outputs / 2;
    const std::size_t of =
        c.labels == Labels::shared ? std::min<std::size_t>(c.outputs, 5) : c.outputs;
    std::vector<std::uint32_t> own;
    for (std::size_t i = 0; i < count; ++i) {
      own.push_back(static_cast<std::uint32_t>(random.below(of)));
    }
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    labels.insert(labels.end(), own.begin(), own.end());
    begin.push_back(labels.size());
  }
}

struct FusedResult {
  std::vector<double> loss, dA, G, g;  // loss: of each row
};

// By the definition, with the scores of one row at a time.
inline FusedResult fused_by_definition(const FusedProblem& p) {
  constexpr std::size_t kInputs = cuda::kFusedInputs;
  FusedResult to{std::vector<double>(p.rows), std::vector<double>(p.rows * kInputs),
                 std::vector<double>(p.outputs * kInputs), std::vector<double>(p.outputs)};
  std::vector<double> D(p.outputs);
  for (std::size_t r = 0; r < p.rows; ++r) {
    const std::size_t count = p.labels_of(r);
    if (count == 0) continue;
    const float* const a = p.A.data() + r * kInputs;
    for (std::size_t l = 0; l < p.outputs; ++l) {
      D[l] = double(p.b[l]);
      for (std::size_t h = 0; h < kInputs; ++h) D[l] += double(a[h]) * double(p.W[l * kInputs + h]);
    }
    const double largest = *std::max_element(D.begin(), D.end());
    double sum = 0, own = 0;
    for (const double z : D) sum += std::exp(z - largest);
    for (std::uint64_t k = p.begin[r]; k < p.begin[r + 1]; ++k) own += D[p.labels[k]];
    const double log_sum = largest + std::log(sum);
    to.loss[r] = log_sum - own / double(count);
    for (double& d : D) d = std::exp(d - log_sum);
    for (std::uint64_t k = p.begin[r]; k < p.begin[r + 1]; ++k) D[p.labels[k]] -= 1 / double(count);
    for (std::size_t l = 0; l < p.outputs; ++l) {
      const double d = double(p.scale) * D[l];
      to.g[l] += d;
      for (std::size_t h = 0; h < kInputs; ++h) {
        to.dA[r * kInputs + h] += d * double(p.W[l * kInputs + h]);
        to.G[l * kInputs + h] += d * double(a[h]);
      }
    }
  }
  const auto add = [&](std::vector<double>& sums, const std::vector<float>& before) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = double(p.alpha) * sums[i] + (p.beta == 0 ? 0 : double(p.beta) * double(before[i]));
    }
  };
  add(to.G, p.G);
  add(to.g, p.g);
  return to;
}

// The same in the two passes of the kernels, which round to `format`.
class FusedReference {
 public:
  FusedReference(const FusedProblem& problem, const cuda::FusedPlan& plan, Format16 format)
      : p_(problem), plan_(plan), format_(format) {
    float largest = 0;
    for (const float a : p_.A) largest = std::max(largest, std::abs(a));
    if (largest > 0) A_scale_ = std::ldexp(1, 14 - std::ilogb(largest));
    for (const float a : p_.A) A_.push_back(format_(double(a) * A_scale_));
    for (const float w : p_.W) W_.push_back(format_(double(w) * kWeightScale));
    run();
  }

  FusedResult result() const { return to_; }

 private:
  void run() {
    to_ = {std::vector<double>(p_.rows), std::vector<double>(p_.rows * kInputs),
           std::vector<double>(p_.outputs * kInputs), std::vector<double>(p_.outputs)};
    log_sum_.assign(p_.rows, std::numeric_limits<double>::infinity());
    for (std::size_t row = 0; row < p_.rows; ++row) {
      if (p_.labels_of(row) > 0) first_pass(row);
    }
    for (std::size_t tile = 0; tile < cuda::ceil_divide(p_.outputs, cuda::kUpdateLabels); ++tile) {
      second_pass(tile);
    }
  }

  static constexpr std::size_t kInputs = cuda::kFusedInputs;
  static constexpr double kWeightScale = 16, kShift = 14, kLog2E = 1.4426950408889634;
  static constexpr double kNone = -std::numeric_limits<double>::infinity();

  // An online softmax without the row's own labels: base 2, scaled by 2^14.
  struct Part {
    double max = kNone, sum = 0;
    std::vector<double> product = std::vector<double>(kInputs);  // sum of e W

    void raise(double to) {
      if (!(to > max)) return;
      const double shrink = std::exp2(max - to);
      max = to;
      sum *= shrink;
      for (double& x : product) x *= shrink;
    }
  };

  double score(std::size_t row, std::size_t label) const {
    double z = 0;
    for (std::size_t h = 0; h < kInputs; ++h) z += A_[row * kInputs + h] * W_[label * kInputs + h];
    return (z / (A_scale_ * kWeightScale) + double(p_.b[label])) * kLog2E;
  }
  bool is_own(std::size_t row, std::size_t label) const {
    const auto first = p_.labels.begin();
    return std::binary_search(first + static_cast<std::ptrdiff_t>(p_.begin[row]),
                              first + static_cast<std::ptrdiff_t>(p_.begin[row + 1]), label);
  }

  void add_tile(std::size_t row, cuda::Range labels, Part& part) const {
    std::vector<double> z;
    for (std::size_t label = labels.begin; label < labels.end; ++label) {
      z.push_back(is_own(row, label) ? kNone : score(row, label));
    }
    part.raise(*std::max_element(z.begin(), z.end()));
    for (std::size_t i = 0; i < z.size(); ++i) {
      const double e = z[i] == kNone ? 0 : std::exp2(z[i] - part.max + kShift);
      part.sum += e;
      const double rounded = format_(e);
      const double* const w = W_.data() + (labels.begin + i) * kInputs;
      for (std::size_t h = 0; h < kInputs; ++h) part.product[h] += rounded * w[h];
    }
  }
  // Scores and combines one row: its loss, the logarithm of its sum, its gradient.
  void first_pass(std::size_t row) {
    Part all;
    for (std::size_t range = 0; range < plan_.ranges; ++range) {
      const std::size_t count = cuda::ceil_divide(p_.outputs, cuda::kScoreLabels);
      const cuda::Range tiles = cuda::group_of(count, plan_.ranges, range);
      Part part;
      for (std::size_t tile = tiles.begin; tile < tiles.end; ++tile) {
        add_tile(row, cuda::tile_of(tile, p_.outputs, cuda::kScoreLabels).columns, part);
      }
      all.raise(part.max);
      if (part.max == kNone) continue;
      part.raise(all.max);
      all.sum += part.sum;
      for (std::size_t h = 0; h < kInputs; ++h) all.product[h] += part.product[h];
    }
    // Own labels come in unrounded.
    double own = 0;
    std::vector<double> z;
    for (std::uint64_t k = p_.begin[row]; k < p_.begin[row + 1]; ++k) {
      z.push_back(score(row, p_.labels[k]));
      own += z.back();
      all.raise(z.back());
    }
    double sum = all.sum / std::exp2(kShift);
    for (const double x : z) sum += std::exp2(x - all.max);
    log_sum_[row] = all.max + std::log2(sum);
    const double target = 1 / double(z.size());
    to_.loss[row] = (log_sum_[row] - own * target) / kLog2E;
    for (std::size_t h = 0; h < kInputs; ++h) {
      double d = all.product[h] / (sum * std::exp2(kShift) * kWeightScale);
      for (std::size_t k = 0; k < z.size(); ++k) {
        d += (std::exp2(z[k] - log_sum_[row]) - target) *
             double(p_.W[p_.labels[p_.begin[row] + k] * kInputs + h]);
      }
      to_.dA[row * kInputs + h] = double(p_.scale) * d;
    }
  }
  // Computes the gradients of a tile of labels over all chunks of rows.
  void second_pass(std::size_t tile) {
    const cuda::Range labels = cuda::tile_of(tile, p_.outputs, cuda::kUpdateLabels).columns;
    const double factor = double(p_.alpha) * double(p_.scale) / std::exp2(kShift);
    for (std::size_t label = labels.begin; label < labels.end; ++label) {
      double sum = 0;
      std::vector<double> product(kInputs);
      for (std::size_t row = 0; row < p_.rows; ++row) {
        double d = std::exp2(score(row, label) + kShift - log_sum_[row]);
        if (is_own(row, label)) d -= std::exp2(kShift) / double(p_.labels_of(row));
        sum += d;
        const double rounded = format_(d);
        for (std::size_t h = 0; h < kInputs; ++h) product[h] += rounded * A_[row * kInputs + h];
      }
      const auto accumulate = [&](double gradient, const std::vector<float>& before,
                                  std::size_t at) {
        return gradient * factor + (p_.beta == 0 ? 0 : double(p_.beta) * double(before[at]));
      };
      to_.g[label] = accumulate(sum, p_.g, label);
      for (std::size_t h = 0; h < kInputs; ++h) {
        to_.G[label * kInputs + h] = accumulate(product[h] / A_scale_, p_.G, label * kInputs + h);
      }
    }
  }

  const FusedProblem& p_;
  const cuda::FusedPlan plan_;
  const Format16 format_;
  double A_scale_ = 1;
  std::vector<double> A_, W_, log_sum_;
  FusedResult to_;
};

}  // namespace hetsgd::test
