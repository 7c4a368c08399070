#include "data/dirichlet.hpp"

#include "data_test_util.hpp"

namespace hetsgd {
namespace {

using Counts = std::vector<std::uint64_t>;

// Rows of each class in turn; class c is the label c.
Dataset classes(const Counts& sizes) {
  DatasetBuilder data = test::dataset_of(Task::multiclass, static_cast<Index>(sizes.size()), 1);
  for (Index c = 0; c < data.label_count; ++c) {
    for (std::uint64_t i = 0; i < sizes[c]; ++i) test::end_row(data, {c});
  }
  return std::move(data).build();
}

Counts equal_slices(std::uint64_t rows, std::uint64_t workers) {
  Counts begin;
  for (std::uint64_t k = 0; k <= workers; ++k) begin.push_back(rows * k / workers);
  return begin;
}

// counts[worker][class].
std::vector<Counts> deal(const Dataset& data, const Counts& begin, double alpha,
                         std::uint64_t seed = 1) {
  const std::vector<Index> rows = dirichlet_shards(data, begin, alpha, seed);
  std::vector<Counts> counts(begin.size() - 1, Counts(data.label_count));
  for (std::size_t k = 0; k + 1 < begin.size(); ++k) {
    for (std::uint64_t i = begin[k]; i < begin[k + 1]; ++i) ++counts[k][data.labels(rows[i])[0]];
  }
  return counts;
}

TEST(Dirichlet, EveryRowHasOneOwner) {
  const Dataset data = classes({1, 50, 7, 100, 1, 41});
  for (const double alpha : {1e-9, 1e-3, 0.5, 10.0, 1e9}) {
    for (const std::uint64_t workers : {1U, 2U, 7U, 200U}) {
      const Counts begin = equal_slices(200, workers);
      std::vector<Index> rows = dirichlet_shards(data, begin, alpha, 3);
      ASSERT_EQ(rows.size(), 200U);
      for (std::size_t k = 0; k < workers; ++k) {
        EXPECT_TRUE(std::is_sorted(rows.begin() + static_cast<std::ptrdiff_t>(begin[k]),
                                   rows.begin() + static_cast<std::ptrdiff_t>(begin[k + 1])));
      }
      std::ranges::sort(rows);
      for (Index row = 0; row < 200; ++row) ASSERT_EQ(rows[row], row);
    }
  }
}

// The first worker draws s of n >> s rows: X_c of class c is Dirichlet-multinomial (with alpha p),
//   E X_c = s p_c,  Var X_c = s p_c (1 - p_c) (s + alpha) / (1 + alpha).
// N seeds: the mean within 5 sqrt(Var / N); the variance within 5 s sqrt(Var / N), since
// |X_c - s p_c| <= s bounds the fourth central moment by s^2 Var. Drawing without replacement moves
// the mean by less than s / n_c = 2 % of an s p_c (1 - p_c), which is added.
TEST(Dirichlet, TheMixOfAWorkerHasItsMoments) {
  const Counts sizes = {400, 800, 1200, 1600};
  const Dataset data = classes(sizes);
  constexpr double s = 8, n = 4000;
  constexpr int draws = 1200;
  for (const double alpha : {0.5, 20.0}) {
    std::vector<double> sum(4), squares(4);
    for (int seed = 0; seed < draws; ++seed) {
      const auto counts = deal(data, {0, 8, 4000}, alpha, static_cast<std::uint64_t>(seed)).front();
      for (std::size_t c = 0; c < 4; ++c) {
        const double deviation =
            static_cast<double>(counts[c]) - s * static_cast<double>(sizes[c]) / n;
        sum[c] += deviation;
        squares[c] += deviation * deviation;
      }
    }
    for (std::size_t c = 0; c < 4; ++c) {
      const double p = static_cast<double>(sizes[c]) / n;
      const double variance = s * p * (1 - p) * (s + alpha) / (1 + alpha);
      const double error = 5 * std::sqrt(variance / draws), bias = 0.02 * s * p * (1 - p);
      EXPECT_NEAR(sum[c] / draws, 0, error + bias) << "class " << c << ", alpha " << alpha;
      EXPECT_NEAR(squares[c] / draws, variance, s * error + bias)
          << "class " << c << ", alpha " << alpha;
    }
  }
}

// q_k = p to 1 part in sqrt(1e9 p): all rows weigh the same, and X_kc is hypergeometric, for the
// last worker as for the first: mean s p, variance below s p (1 - p). 5 standard deviations for
// each of 20 x 4 counts: one in 20,000 tests would fail by chance.
TEST(Dirichlet, ALargeAlphaIsIid) {
  const Counts sizes = {500, 1000, 3500, 5000};
  const auto counts = deal(classes(sizes), equal_slices(10'000, 20), 1e9);
  for (std::size_t k = 0; k < 20; ++k) {
    for (std::size_t c = 0; c < 4; ++c) {
      const double p = static_cast<double>(sizes[c]) / 10'000;
      EXPECT_NEAR(static_cast<double>(counts[k][c]), 500 * p, 5 * std::sqrt(500 * p * (1 - p)));
    }
  }
}

// alpha -> 0: a worker takes all that is left of a class before the next one. So every (worker,
// class) that occurs ends either the class or the worker: at most C + P - 1, as of slices by label.
TEST(Dirichlet, ASmallAlphaIsLikeSortedByLabel) {
  constexpr std::uint64_t c = 30, p = 8;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::uint64_t pairs = 0;
    for (const Counts& worker : deal(classes(Counts(c, 20)), equal_slices(20 * c, p), 1e-6, seed)) {
      pairs += static_cast<std::uint64_t>(
          std::ranges::count_if(worker, [](auto count) { return count > 0; }));
    }
    EXPECT_LE(pairs, c + p - 1);
  }
}

TEST(Dirichlet, TheClassIsTheFirstLabel) {
  // Labels 2 3 | none | 0 2 | 2: classes in order of their label, no label first.
  const auto data = parse("4 1 5\n2,3 0:1\n 0:1\n0,2 0:1\n2 0:1\n").data;
  const auto [class_of, count] = first_label_classes(*data);
  EXPECT_EQ(class_of, (std::vector<Index>{2, 0, 1, 2}));
  EXPECT_EQ(count, 3U);
}

}  // namespace
}  // namespace hetsgd
