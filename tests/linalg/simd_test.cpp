// Vectors of 64 bytes against the same operation on an array, for registers of every size: the
// order of a sum is a definition, which a machine with other registers must not change.
#include "core/random.hpp"
#include "linalg/cpu/lane_sum.hpp"
#include "linalg/cpu/lanes.hpp"
#include "linalg/reference.hpp"

namespace hetsgd::cpu {
namespace {

template <class Real>
class Simd : public ::testing::Test {
 protected:
  static constexpr std::size_t kCount = 64 / sizeof(Real);
  using Array = std::array<Real, kCount>;

  Array random() {
    Array x;
    for (Real& each : x) each = static_cast<Real>(random_.uniform(-1, 1));
    return x;
  }
  static Vec<Real> vector(const Array& x) { return load(x.data()); }
  static Array array(const Vec<Real>& v) {
    Array x;
    store(x.data(), v);
    return x;
  }
  // The sum of the lanes as a tree: halves are added until one number is left.
  static Real tree(Array x) {
    for (std::size_t width = kCount / 2; width > 0; width /= 2) {
      for (std::size_t i = 0; i < width; ++i) x[i] += x[i + width];
    }
    return x[0];
  }

 private:
  RandomStream random_{1, Purpose::test};
};
TYPED_TEST_SUITE(Simd, hetsgd::test::RealTypes);

TYPED_TEST(Simd, ArithmeticIsLaneByLane) {
  using Real = TypeParam;
  const auto x = this->random(), y = this->random(), z = this->random();
  const Vec<Real> a = load(x.data()), b = load(y.data()), c = load(z.data());
  typename TestFixture::Array sum, fma, chosen;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const Real product = x[i] * y[i];
    sum[i] = product + Real(2);
    fma[i] = std::fma(x[i], y[i], z[i]);
    chosen[i] = x[i] < y[i] ? x[i] : -y[i];
  }
  EXPECT_EQ(this->array(a * b + Real(2)), sum);
  EXPECT_EQ(this->array(fused(a, b, c)), fma);
  EXPECT_EQ(this->array(select(a < b, a, -b)), chosen);
}

TYPED_TEST(Simd, ASumOfLanesIsATree) {
  const auto x = this->random();
  EXPECT_EQ(horizontal_sum(this->vector(x)), this->tree(x));
}

// Element i is added to sum i % 16, whatever a vector holds.
TYPED_TEST(Simd, ASumInLanesHasSixteenSums) {
  using Real = TypeParam;
  RandomStream random(2, Purpose::test);
  for (const std::size_t n : {0U, 1U, 15U, 16U, 17U, 100U}) {
    std::vector<Real> x(n);
    for (Real& each : x) each = static_cast<Real>(random.uniform(-1, 1));
    std::array<Real, 16> sum{};
    for (std::size_t i = 0; i < n; ++i) sum[i % 16] += x[i];
    for (std::size_t width = 8; width > 0; width /= 2) {
      for (std::size_t i = 0; i < width; ++i) sum[i] += sum[i + width];
    }
    EXPECT_EQ(sum_in_lanes<Real>(
                  n, [](auto each) { return each; }, x.data()),
              sum[0])
        << n;
  }
}

TYPED_TEST(Simd, LanesMoveAsTheSequenceOfBoth) {
  using Real = TypeParam;
  constexpr std::size_t n = TestFixture::kCount;
  const auto x = this->random(), y = this->random();
  const Vec<Real> a = load(x.data()), b = load(y.data());
  typename TestFixture::Array even, odd, low, high;
  for (std::size_t i = 0; i < n; ++i) {
    const auto both = [&](std::size_t at) { return at < n ? x[at] : y[at - n]; };
    const auto turn = [&](std::size_t at) { return at % 2 == 0 ? x[at / 2] : y[at / 2]; };
    even[i] = both(2 * i);
    odd[i] = both(2 * i + 1);
    low[i] = turn(i);
    high[i] = turn(n + i);
  }
  EXPECT_EQ(this->array(every_second<Real, 0>(a, b)), even);
  EXPECT_EQ(this->array(every_second<Real, 1>(a, b)), odd);
  EXPECT_EQ(this->array(interleaved<Real, 0>(a, b)), low);
  EXPECT_EQ(this->array(interleaved<Real, 1>(a, b)), high);
}

TYPED_TEST(Simd, AMatrixOfAnySizeIsTransposed) {
  using Real = TypeParam;
  for (const auto& [rows, columns] :
       std::vector<std::pair<std::size_t, std::size_t>>{{1, 5}, {8, 8}, {16, 16}, {21, 37}}) {
    std::vector<Real> from(rows * columns), to(rows * columns);
    std::iota(from.begin(), from.end(), Real(0));
    transpose<Real>(rows, columns, from.data(), columns, to.data(), rows);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        ASSERT_EQ(to[j * rows + i], from[i * columns + j]) << rows << " " << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace hetsgd::cpu
