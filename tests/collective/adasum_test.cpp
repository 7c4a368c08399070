// Adasum: the operator against its identities, the collective against the operator applied at one
// place, on every cluster and for every number of workers up to 16; times on `sim` against the
// costs that the header states.
#include "collective/adasum.hpp"

#include "cluster/conformance.hpp"
#include "collective/combine.hpp"
#include "collective/gradients.hpp"
#include "support/plain_cluster.hpp"

namespace hetsgd {
namespace {

using Vector = std::vector<float>;
using Bounds = std::vector<std::size_t>;

constexpr int kAdasumTag = 5;
constexpr AdasumShape kShapes[] = {AdasumShape::tree, AdasumShape::linear};

double dot(const Vector& x, const Vector& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(x[i]) * y[i];
  return sum;
}

Vector adasum_two(const Vector& a, const Vector& b) {
  Vector y(a.size());
  adasum(Bounds{0, a.size()}, a, b, y);
  return y;
}

Vector adasum_whole(const std::vector<Vector>& g, AdasumShape shape) {
  return adasum_of(g, Bounds{0, g.front().size()}, shape);
}

// --- the operator --------------------------------------------------------------------------------

// With A = ||a||^2, B = ||b||^2 and c the cosine, a.b = sqrt(AB) c:
//   ||AS||^2 = (1 - sqrt(B/A) c/2)^2 A + (1 - sqrt(A/B) c/2)^2 B
//              + 2 (1 - sqrt(B/A) c/2) (1 - sqrt(A/B) c/2) sqrt(AB) c
//            = (A + B) (1 - 3/4 c^2) + 1/2 sqrt(AB) c^3.
TEST(Adasum, NormIdentity) {
  for (const float lean : {-3.0F, -0.5F, 0.0F, 0.1F, 1.0F, 10.0F}) {
    for (const float length : {0.01F, 1.0F, 30.0F}) {
      const Vector a = test::uniform_numbers(1001, 1);
      Vector b = test::uniform_numbers(1001, 2);
      for (std::size_t i = 0; i < b.size(); ++i) b[i] = length * (b[i] + lean * a[i]);
      const Vector y = adasum_two(a, b);
      const double aa = dot(a, a), bb = dot(b, b), c = dot(a, b) / std::sqrt(aa * bb);
      const double expected = (aa + bb) * (1 - 0.75 * c * c) + 0.5 * std::sqrt(aa * bb) * c * c * c;
      EXPECT_NEAR(dot(y, y), expected, 1e-6 * (aa + bb)) << lean << " " << length;
    }
  }
}

TEST(Adasum, OfZeroAndAVectorIsTheVector) {
  const Vector zero(33), b = test::uniform_numbers(33, 1);
  EXPECT_EQ(adasum_two(zero, b), b);
  EXPECT_EQ(adasum_two(b, zero), b);
  EXPECT_EQ(adasum_two(zero, zero), zero);
}

// The factor is 1 below sqrt(DBL_MIN) = 1.5e-154; 1e-38^2 is above, and no product underflows.
TEST(Adasum, SmallestAndLargestFloatsKeepTheirDigits) {
  for (const float size : {1e-38F, 1e30F}) {
    const Vector a{size, size}, b{size, -size};
    EXPECT_EQ(adasum_two(a, b), (Vector{2 * size, 0}));
    EXPECT_EQ(adasum_two(a, a), a);
  }
}

TEST(Adasum, ParallelScalars) {
  EXPECT_EQ(adasum_whole({{1}, {2}, {3}, {6}}, AdasumShape::tree), Vector{3.0F});
  EXPECT_EQ(adasum_whole({{1}, {2}, {3}, {6}}, AdasumShape::linear), Vector{4.125F});
  // The extra one is folded first: AS(AS(1, 2), 3).
  EXPECT_EQ(adasum_whole({{1}, {2}, {3}}, AdasumShape::tree), Vector{2.25F});
}

// AS(g, g) = (1 - 1/2) g + (1 - 1/2) g, exactly; of orthogonal vectors every factor is 1.
TEST(Adasum, EqualVectorsAreAveragedAndOrthogonalOnesAdded) {
  const Vector g = test::uniform_numbers(37, 1);
  for (const AdasumShape shape : kShapes) {
    for (std::size_t p = 1; p <= 9; ++p) {
      EXPECT_EQ(adasum_whole(std::vector(p, g), shape), g) << p;
      std::vector<Vector> axes(p, Vector(p));
      Vector sum(p);
      for (std::size_t i = 0; i < p; ++i) axes[i][i] = sum[i] = g[i];
      EXPECT_EQ(adasum_whole(axes, shape), sum) << p;
    }
  }
}

TEST(Adasum, EveryTensorByItself) {
  const Vector a = test::uniform_numbers(50, 1), b = test::uniform_numbers(50, 2);
  Vector y(50);
  adasum(Bounds{0, 0, 7, 8, 50, 50}, a, b, y);
  const auto part = [](const Vector& x, std::size_t from, std::size_t to) {
    return Vector(x.begin() + static_cast<std::ptrdiff_t>(from),
                  x.begin() + static_cast<std::ptrdiff_t>(to));
  };
  for (const auto& [from, to] : {std::pair{0, 7}, {7, 8}, {8, 50}}) {
    EXPECT_EQ(part(y, from, to), adasum_two(part(a, from, to), part(b, from, to)));
  }
}

TEST(Adasum, ResultMayReplaceAnInput) {
  const Vector a = test::uniform_numbers(50, 1), b = test::uniform_numbers(50, 2),
               y = adasum_two(a, b);
  Vector first = a, second = b;
  adasum(Bounds{0, 50}, first, b, first);
  adasum(Bounds{0, 50}, a, second, second);
  EXPECT_EQ(first, y);
  EXPECT_EQ(second, y);
}

TEST(Adasum, WhatIsNotANumberShows) {
  Vector a = test::uniform_numbers(9, 1);
  a[4] = std::numeric_limits<float>::quiet_NaN();
  for (const float number : adasum_two(a, test::uniform_numbers(9, 2)))
    EXPECT_TRUE(std::isnan(number));
}

// --- the collective ------------------------------------------------------------------------------

ClusterOptions options_for(int workers) { return plain_cluster(workers, 1e30, 1e12); }

// Tensors of very different sizes, some of them empty, cut across the halves.
std::vector<Bounds> tilings(std::size_t n) {
  Bounds many = {0};
  for (std::size_t size = 0; many.back() < n; size = size * 2 + many.size() % 2) {
    many.push_back(std::min(n, many.back() + size));
  }
  many.push_back(n);
  return {{0, n}, many};
}

// How many numbers differ. Each of the log2 p <= 4 levels (linear: p - 1) may add one unit in the
// last place of a number of the size of the inputs.
std::size_t count_differences(const Vector& x, const Vector& expected, int workers) {
  std::size_t differences = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(x[i], expected[i], workers * 2 * 0x1p-23) << "at " << i;
    differences += x[i] != expected[i];
  }
  return differences;
}

class AdasumOn : public conformance::OnEveryCluster {
 protected:
  std::vector<Vector> reduce(std::vector<Vector> g, const Bounds& bounds, AdasumShape shape) {
    const auto cluster = make_cluster(GetParam(), options_for(static_cast<int>(g.size())));
    cluster->run([&](Endpoint& endpoint) {
      Vector& x = g[static_cast<std::size_t>(endpoint.rank())];
      AdasumAllReduce all_reduce(endpoint, endpoint.comm(), bounds, shape);
      all_reduce(x, kAdasumTag);
    });
    return g;
  }
};
HETSGD_ON_EVERY_CLUSTER(AdasumOn);

TEST_P(AdasumOn, IsTheOperatorAppliedAtOnePlace) {
  std::size_t numbers = 0, differences = 0;
  for (int workers = 1; workers <= 16; ++workers) {
    for (const std::size_t n : {0U, 1U, 2U, 7U, 101U, 1003U}) {
      const std::vector<Vector> g = inputs(workers, n);
      for (const Bounds& bounds : tilings(n)) {
        for (const AdasumShape shape : kShapes) {
          SCOPED_TRACE(testing::Message() << workers << " workers, " << n << " numbers in "
                                          << bounds.size() - 1 << " tensors");
          const Vector expected = adasum_of(g, bounds, shape);
          const std::vector<Vector> results = reduce(g, bounds, shape);
          differences += count_differences(results.front(), expected, workers);
          numbers += n;
          for (const Vector& x : results) ASSERT_EQ(x, results.front()) << "ranks differ";
        }
      }
    }
  }
  EXPECT_LT(static_cast<double>(differences), 1e-3 * static_cast<double>(numbers));
}

// Slices of several pieces (kSendrecvPiece), of uneven lengths.
TEST_P(AdasumOn, LongVectors) {
  constexpr std::size_t kElements = 5 * kSendrecvPiece / sizeof(float) + 13;
  for (const int workers : {2, 3, 4}) {
    const std::vector<Vector> g = inputs(workers, kElements);
    const Bounds bounds = {0, 17, kElements / 2 + 1, kElements};
    for (const AdasumShape shape : kShapes) {
      const std::vector<Vector> results = reduce(g, bounds, shape);
      const Vector expected = adasum_of(g, bounds, shape);
      EXPECT_LT(count_differences(results.front(), expected, workers), kElements / 100);
      for (const Vector& x : results) ASSERT_EQ(x, results.front());
    }
  }
}

// Two calls one after the other with one tag and one scratch memory.
TEST_P(AdasumOn, RepeatsWithTheSameBits) {
  const std::vector<Vector> g = inputs(6, 501);
  const Bounds bounds = tilings(501).back();
  std::vector<std::vector<Vector>> results(2, g);
  make_cluster(GetParam(), options_for(6))->run([&](Endpoint& endpoint) {
    for (const AdasumShape shape : kShapes) {
      AdasumAllReduce all_reduce(endpoint, endpoint.comm(), bounds, shape);
      for (auto& result : results) {
        Vector& x = result[static_cast<std::size_t>(endpoint.rank())];
        x = g[static_cast<std::size_t>(endpoint.rank())];
        all_reduce(x, kAdasumTag);
      }
      endpoint.comm().barrier();
      EXPECT_EQ(results[0], results[1]);
      endpoint.comm().barrier();
    }
  });
}

// Slices that follow no rule: the sums of whole numbers, and empty slices.
TEST_P(AdasumOn, ReduceScatterBySlices) {
  for (const Bounds& bounds :
       {Bounds{0, 0, 100, 101}, Bounds{0, 50, 50, 101}, Bounds{0, 0, 0, 0}}) {
    make_cluster(GetParam(), options_for(3))->run([&](Endpoint& endpoint) {
      const auto r = static_cast<std::size_t>(endpoint.rank());
      Vector x(bounds.back()), scratch;
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i + 1) * (r + 1));
      reduce_scatter_slices(endpoint.comm(), kAdasumTag, std::span(x), bounds, scratch);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const bool mine = i >= bounds[r] && i < bounds[r + 1];
        EXPECT_EQ(x[i], static_cast<float>((i + 1) * (mine ? 6 : r + 1))) << "rank " << r;
      }
    });
  }
}

// ((x0 + x1) + x2) + ..., to the bit.
TEST_P(AdasumOn, ReduceScatterAddsInRankOrder) {
  constexpr std::size_t kElements = 300;
  make_cluster(GetParam(), options_for(4))->run([&](Endpoint& endpoint) {
    const auto r = static_cast<std::size_t>(endpoint.rank());
    const Bounds bounds = {0, 10, 200, 201, kElements};
    Vector x = test::uniform_numbers(kElements, r), y = x, scratch;
    reduce_scatter_slices(endpoint.comm(), kAdasumTag, std::span(x), bounds, scratch);
    endpoint.comm().all_reduce(std::span(y));
    for (std::size_t i = bounds[r]; i < bounds[r + 1]; ++i) EXPECT_EQ(x[i], y[i]) << i;
  });
}

// --- times on sim --------------------------------------------------------------------------------

double time_of(int workers, std::size_t n, const Bounds& bounds, AdasumShape shape) {
  return make_cluster("sim", options_for(workers))
      ->run([&](Endpoint& endpoint) {
        Vector x(n);
        AdasumAllReduce all_reduce(endpoint, endpoint.comm(), bounds, shape);
        all_reduce(x, kAdasumTag, Traffic::control);
      })
      .elapsed.count();
}

// p = 2^m, p divides n: 2 (m L + (p-1)/p n/B), the sums of products m (m+1)/2 (L + 24 T/B), and 20
// bytes of device memory per number of each slice: 20 (p-1)/p n / 1e12.
TEST(AdasumTime, TreeIsItsStatedCost) {
  constexpr std::size_t kElements = 1 << 14;
  for (const auto& [p, m] : {std::pair{2, 1}, {4, 2}, {8, 3}, {16, 4}}) {
    for (const std::size_t tensors : {1U, 4U}) {
      Bounds bounds;
      for (std::size_t t = 0; t <= tensors; ++t) bounds.push_back(t * kElements / tensors);
      const double latency = 1e-5, share = (p - 1.0) / p * kElements;
      const double expected =
          2 * (m * latency + 4 * share / 1e9) +
          m * (m + 1) / 2 * (latency + 24 * static_cast<double>(tensors) / 1e9) + 20 * share / 1e12;
      EXPECT_NEAR(time_of(p, kElements, bounds, AdasumShape::tree), expected, 1e-9 * expected)
          << p << " workers, " << tensors << " tensors";
    }
  }
}

// p divides n: (p-1) (2 L + 2 n/(p B)), p - 1 all_reduces of 3 T doubles, and (p-1)/p n times 20
// bytes of device memory.
TEST(AdasumTime, LinearIsItsStatedCost) {
  constexpr std::size_t kElements = 1680;
  for (const int p : {2, 3, 5, 8}) {
    const double latency = 1e-5, share = (p - 1.0) / p * kElements;
    const double small = options_for(p).network.all_reduce_cost(p, 24).count();
    const double expected =
        (p - 1) * (2 * latency + small) + 2 * 4 * share / 1e9 + 20 * share / 1e12;
    EXPECT_NEAR(time_of(p, kElements, {0, kElements}, AdasumShape::linear), expected,
                1e-9 * expected)
        << p;
  }
}

}  // namespace
}  // namespace hetsgd
