#include "data/dirichlet.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {

namespace {

// Streams of Purpose::partition: b below; a is the worker, or the class.
constexpr std::uint32_t kMix = 1, kRowsOfClass = 2;

// Weights of 0..n-1 in a binary tree of sums. Drawing and changing one takes log n steps. Sums are
// computed afresh, so that no rounding error is left of a weight that was set to 0.
class WeightTree {
 public:
  explicit WeightTree(std::size_t n) : leaves_(std::bit_ceil(n)), sum_(2 * leaves_) {}

  void assign(std::size_t n, auto&& weight) {
    for (std::size_t i = 0; i < leaves_; ++i) sum_[leaves_ + i] = i < n ? weight(i) : 0.0;
    for (std::size_t i = leaves_ - 1; i > 0; --i) sum_[i] = sum_[2 * i] + sum_[2 * i + 1];
  }
  double total() const { return sum_[1]; }
  void set(std::size_t i, double weight) {
    i += leaves_;
    sum_[i] = weight;
    while (i /= 2) sum_[i] = sum_[2 * i] + sum_[2 * i + 1];
  }
  // i with probability weight / total, u uniform in [0, 1). total() > 0.
  std::size_t draw(double u) const {
    double rest = u * total();
    std::size_t i = 1;
    while (i < leaves_) {
      i *= 2;
      if (sum_[i + 1] > 0 && rest >= sum_[i]) rest -= sum_[i++];
    }
    return i - leaves_;
  }

 private:
  std::size_t leaves_;
  std::vector<double> sum_;  // node i over 2i and 2i + 1; leaves from leaves_ on
};

// The rows of each class in a random order. Rows that are not taken yet stand in front.
struct Stock {
  Stock(const Dataset& data, std::uint64_t seed) {
    auto [class_of, classes] = first_label_classes(data);
    begin.assign(classes + 1, 0);
    for (const Index c : class_of) ++begin[c + 1];
    for (Index c = 0; c < classes; ++c) begin[c + 1] += begin[c];
    end.assign(begin.begin(), begin.end() - 1);
    rows.resize(data.rows());
    for (std::size_t row = 0; row < class_of.size(); ++row) {
      rows[end[class_of[row]]++] = static_cast<Index>(row);
    }
    for (Index c = 0; c < classes; ++c) {  // Fisher-Yates
      RandomStream random(seed, Purpose::partition, c, kRowsOfClass);
      for (std::uint64_t i = end[c] - begin[c]; i > 1; --i) {
        std::swap(rows[begin[c] + i - 1], rows[begin[c] + random.below(i)]);
      }
    }
  }
  std::size_t classes() const { return end.size(); }
  double size(std::size_t c) const { return static_cast<double>(begin[c + 1] - begin[c]); }
  double left(std::size_t c) const { return static_cast<double>(end[c] - begin[c]); }

  std::vector<Index> rows;           // class after class
  std::vector<std::uint64_t> begin;  // of each class
  std::vector<std::uint64_t> end;    // of the rows of each class that are left
};

// The logarithm of a gamma variate; with a small shape the variate itself would round to 0. For
// shape < 1, gamma(shape) has the distribution of gamma(shape + 1) U^(1/shape) (Marsaglia & Tsang
// 2000, section 6).
double log_gamma_variate(RandomStream& random, double shape) {
  if (shape >= 1) return std::log(random.gamma(shape));
  const double whole = std::log(random.gamma(shape + 1));
  return whole + std::log(1.0 - random.uniform()) / shape;
}

// Draws the rows of one worker after the other.
class Dealer {
 public:
  Dealer(Stock& stock, double alpha, std::uint64_t seed)
      : stock_(stock),
        alpha_(alpha),
        seed_(seed),
        log_q_(stock.classes()),
        row_weight_(stock.classes()),
        class_weight_(stock.classes()) {}

  void deal(std::uint64_t worker, std::span<Index> shard) {
    RandomStream random(seed_, Purpose::partition, worker, kMix);
    for (std::size_t c = 0; c < log_q_.size(); ++c) {
      const double p = stock_.size(c) / static_cast<double>(stock_.rows.size());
      log_q_[c] = log_gamma_variate(random, alpha_ * p);
    }
    weigh();
    for (Index& row : shard) {
      // If alpha is small, the weights of the remaining rows may underflow.
      if (class_weight_.total() < std::numeric_limits<double>::min()) weigh();
      const std::size_t c = class_weight_.draw(random.uniform());
      row = stock_.rows[--stock_.end[c]];
      class_weight_.set(c, row_weight_[c] * stock_.left(c));
    }
    std::ranges::sort(shard);
  }

 private:
  // Computes the weights of this worker up to a factor: the largest remaining one is 1.
  void weigh() {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::size_t c = 0; c < log_q_.size(); ++c) {
      if (stock_.left(c) > 0) largest = std::max(largest, log_q_[c]);
    }
    for (std::size_t c = 0; c < log_q_.size(); ++c) {
      row_weight_[c] = stock_.left(c) > 0 ? std::exp(log_q_[c] - largest) / stock_.size(c) : 0.0;
    }
    class_weight_.assign(log_q_.size(),
                         [&](std::size_t c) { return row_weight_[c] * stock_.left(c); });
  }

  Stock& stock_;
  double alpha_;
  std::uint64_t seed_;
  std::vector<double> log_q_;       // log of q_k, up to a constant
  std::vector<double> row_weight_;  // of each row of a class
  WeightTree class_weight_;         // of all rows of a class that are left
};

}  // namespace

std::pair<std::vector<Index>, Index> first_label_classes(const Dataset& data) {
  std::vector<Index> class_of(data.rows());
  std::vector<Index> number(data.label_count + std::size_t{1}, 0);  // 0: no label
  const auto key = [&](std::size_t row) {
    const auto labels = data.labels(row);
    return labels.empty() ? std::size_t{0} : labels.front() + std::size_t{1};
  };
  for (std::size_t row = 0; row < class_of.size(); ++row) number[key(row)] = 1;
  Index classes = 0;
  for (Index& n : number) n = n == 1 ? classes++ : 0;
  for (std::size_t row = 0; row < class_of.size(); ++row) class_of[row] = number[key(row)];
  return {std::move(class_of), classes};
}

std::vector<Index> dirichlet_shards(const Dataset& data, std::span<const std::uint64_t> begin,
                                    double alpha, std::uint64_t seed) {
  HETSGD_CHECK(alpha > 0);
  Stock stock(data, seed);
  Dealer dealer(stock, alpha, seed);
  std::vector<Index> shards(data.rows());
  for (std::size_t k = 0; k + 1 < begin.size(); ++k) {
    dealer.deal(k, std::span(shards).subspan(begin[k], begin[k + 1] - begin[k]));
  }
  return shards;
}

}  // namespace hetsgd
