// Attention by blocks against plain attention with all scores in memory.
#include <numeric>

#include "linalg/attention_kernels.hpp"
#include "linalg/devices.hpp"
#include "linalg/token_rows.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class AttentionTest : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionTest, RealTypes);

template <class Real>
constexpr double kAttentionTolerance = sizeof(Real) == 4 ? 1e-6 : 1e-13;

struct PlainAttention {
  std::vector<double> sums, Y, dX;
};

// `z(row, head, i, j)` is the factor of a probability.
template <class Factor>
PlainAttention plain_attention(const AttentionShape& shape, const TokenRowsOfTest& rows,
                               const std::vector<double>& X, const std::vector<double>& dY,
                               const Factor& z) {
  const std::size_t c = shape.width, d = shape.depth(), n = rows.tokens;
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  PlainAttention e{std::vector<double>(shape.heads * n), std::vector<double>(n * c),
                   std::vector<double>(n * 3 * c)};
  rows.each([&](std::size_t r, std::size_t t, std::size_t i) {
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const std::size_t first = rows.begin[r], keys = shape.causal ? t + 1 : rows.length[r];
      const double* const q = &X[i * 3 * c + head * d];
      const auto key = [&](std::size_t j) { return &X[(first + j) * 3 * c + c + head * d]; };
      const auto dot = [&](const double* a, const double* b) {
        return std::inner_product(a, a + d, b, 0.0);
      };
      std::vector<double> p(keys);
      for (std::size_t j = 0; j < keys; ++j) p[j] = scale * dot(q, key(j));
      const double largest = *std::ranges::max_element(p);
      double sum = 0;
      for (const double s : p) sum += std::exp(s - largest);
      const double l = largest + std::log(sum);
      e.sums[head * n + i] = l;
      double* const y = &e.Y[i * c + head * d];
      for (std::size_t j = 0; j < keys; ++j) {
        p[j] = std::exp(p[j] - l);
        for (std::size_t k = 0; k < d; ++k) y[k] += z(r, head, t, j) * p[j] * key(j)[c + k];
      }
      const double* const dy = &dY[i * c + head * d];
      const double through = dot(dy, y);
      for (std::size_t j = 0; j < keys; ++j) {
        const double factor = z(r, head, t, j);
        const double ds = p[j] * (factor * dot(dy, key(j) + c) - through) * scale;
        double* const to = &e.dX[(first + j) * 3 * c + head * d];
        for (std::size_t k = 0; k < d; ++k) {
          e.dX[i * 3 * c + head * d + k] += ds * key(j)[k];
          to[c + k] += ds * q[k];
          to[2 * c + k] += factor * p[j] * dy[k];
        }
      }
    }
  });
  return e;
}

double one(std::size_t, std::size_t, std::size_t, std::size_t) { return 1; }

// Runs both passes. `dX` holds the gradient that beta is for.
template <class Real>
struct AttentionRun {
  AttentionRun(Side<Real>& side, const AttentionShape& shape, const TokenRowsOfTest& rows,
               const std::vector<Real>& x, const std::vector<Real>& dy, Real beta = 0)
      : sums(side.put(std::vector<Real>(shape.heads * rows.tokens))),
        Y(side.room(rows.tokens * shape.width)),
        dX(beta == 0 ? side.room(x.size()) : side.put(x)) {
    const auto X = side.put(x), dY = side.put(dy);
    auto& attention = kernels<BasicAttentionKernels<Real>>(side.device);
    attention.attention(shape, rows.spans(), X.data(), sums.data(), Y.data());
    attention.attention_gradient(shape, rows.spans(), X.data(), sums.data(), Y.data(), dY.data(),
                                 beta, dX.data());
  }
  BasicBuffer<Real> sums, Y, dX;
};

template <class Real>
void expect_plain(const AttentionShape& shape, const TokenRowsOfTest& rows, Real beta = 0) {
  SCOPED_TRACE(::testing::Message() << shape.heads << " heads x " << shape.depth() << ", causal "
                                    << shape.causal << ", " << rows.tokens << " tokens");
  const auto X = random_vector<Real>(rows.tokens * 3 * shape.width, 1);
  auto dY = random_vector<Real>(rows.tokens * shape.width, 2);
  PlainAttention e = plain_attention(shape, rows, widen(X), widen(dY), one);
  for (std::size_t i = 0; i < X.size() && beta != 0; ++i) e.dX[i] += double(beta) * double(X[i]);
  on_devices<Real>([&](auto& side) {
    const AttentionRun<Real> run(side, shape, rows, X, dY, beta);
    const auto expect = [&](const BasicBuffer<Real>& found, const std::vector<double>& expected,
                            const char* what, double times) {
      side.take(found);
      expect_close(side.results.back(), expected, times * kAttentionTolerance<Real>, what);
    };
    expect(run.sums, e.sums, "l", 1);
    expect(run.Y, e.Y, "Y", 1);
    expect(run.dX, e.dX, "dX", 3);
  });
}

TYPED_TEST(AttentionTest, IsPlainAttentionAroundWholeBlocks) {
  for (const bool causal : {false, true}) {
    for (const std::uint32_t length : {1U, 63U, 64U, 65U, 257U}) {
      expect_plain<TypeParam>({.heads = 2, .width = 64, .causal = causal},
                              TokenRowsOfTest({length, (length + 2) / 3, length}));
    }
  }
}

TYPED_TEST(AttentionTest, IsPlainAttentionAtAllLengths) {
  std::vector<std::uint32_t> lengths(140);
  std::iota(lengths.begin(), lengths.end(), 1U);
  for (const bool causal : {false, true}) {
    expect_plain<TypeParam>({.heads = 1, .width = 8, .causal = causal}, TokenRowsOfTest(lengths));
  }
}

TYPED_TEST(AttentionTest, HeadsOfAnyDepth) {
  for (const std::size_t depth : {1, 3, 16, 17, 40, 128, 200, 256}) {
    expect_plain<TypeParam>({.heads = 3, .width = 3 * depth, .causal = true},
                            TokenRowsOfTest({70, 5}, 72));
  }
}

TYPED_TEST(AttentionTest, AddsToAGradient) {
  expect_plain<TypeParam>({.heads = 2, .width = 10, .causal = true}, TokenRowsOfTest({66, 3}),
                          TypeParam(1));
}

// Element ((b H + h) block + i) block + j of a mask of dropout, in both passes.
TYPED_TEST(AttentionTest, DropsProbabilities) {
  using Real = TypeParam;
  AttentionShape shape{.heads = 2, .width = 12, .causal = true};
  shape.drop = {.seed = 9, .a = 4, .b = 7, .p = 0.3};
  shape.block = 83;
  const TokenRowsOfTest rows({65, 80});
  const auto kept = [&](std::size_t r, std::size_t h, std::size_t i, std::size_t j) {
    const std::size_t element = ((r * 2 + h) * 83 + i) * 83 + j;
    const RandomBlock words =
        random_block(9, Purpose::dropout, 4, 7, static_cast<std::uint32_t>(element / 4));
    return words[element % 4] < static_cast<std::uint64_t>(0.3 * 0x1.0p32) ? 0 : 1 / 0.7;
  };
  const auto X = random_vector<Real>(rows.tokens * 36, 1);
  const auto dY = random_vector<Real>(rows.tokens * 12, 2);
  const PlainAttention e = plain_attention(shape, rows, widen(X), widen(dY), kept);
  on_devices<Real>([&](auto& side) {
    const AttentionRun<Real> run(side, shape, rows, X, dY);
    side.expect(run.Y, e.Y, "Y");
    side.expect(run.dX, e.dX, "dX");
  });
}

// The bits of a row do not depend on the cores, its padding or the other rows. Padding is zero.
TYPED_TEST(AttentionTest, ARowHasTheSameBitsEverywhere) {
  using Real = TypeParam;
  const AttentionShape shape{.heads = 4, .width = 32, .causal = true};
  const auto X = random_vector<Real>(200 * 96, 1);
  const auto dY = random_vector<Real>(200 * 32, 2);
  const auto of_row = [&](BasicDevice<Real>& device, const TokenRowsOfTest& rows, std::size_t row) {
    Side<Real> side{device};
    const std::size_t begin = rows.begin[row];
    std::vector<Real> x(rows.tokens * 96, Real(kNan)), dy(rows.tokens * 32, Real(kNan));
    rows.each([&](std::size_t, std::size_t t, std::size_t token) {
      std::copy_n(X.begin() + static_cast<std::ptrdiff_t>(t * 96), 96,
                  x.begin() + static_cast<std::ptrdiff_t>(token * 96));
      std::copy_n(dY.begin() + static_cast<std::ptrdiff_t>(t * 32), 32,
                  dy.begin() + static_cast<std::ptrdiff_t>(token * 32));
    });
    const AttentionRun<Real> run(side, shape, rows, x, dy);
    std::vector<Real> all = side.get(run.Y), gradient = side.get(run.dX), result;
    for (const Real each : all) EXPECT_FALSE(std::isnan(each));
    for (const Real each : gradient) EXPECT_FALSE(std::isnan(each));
    result.assign(&all[begin * 32], &all[begin * 32] + 70 * 32);
    result.insert(result.end(), &gradient[begin * 96], &gradient[begin * 96] + 70 * 96);
    return result;
  };
  const auto expect = [&](BasicDevice<Real>& device, const std::vector<Real>& alone) {
    SCOPED_TRACE(device.name());
    EXPECT_EQ(of_row(device, TokenRowsOfTest({70, 90, 13}, 96), 0), alone);
    EXPECT_EQ(of_row(device, TokenRowsOfTest({13, 90, 70}), 2), alone);
  };
  if constexpr (kOnGpu) {
    expect(gpu<Real>(), of_row(gpu<Real>(), TokenRowsOfTest({70}), 0));
  } else {
    const auto alone = of_row(*make_cpu_device<Real>(1), TokenRowsOfTest({70}), 0);
    for (const int cores : {1, 2, 4}) expect(*make_cpu_device<Real>(cores), alone);
  }
}

TYPED_TEST(AttentionTest, NanOfATokenReachesLaterOnesOnly) {
  using Real = TypeParam;
  auto X = random_vector<Real>(100 * 12, 1);
  X[70 * 12 + 5] = Real(kNan);  // a key
  on_devices<Real>([&](auto& side) {
    const AttentionRun<Real> run(side, {.heads = 1, .width = 4, .causal = true},
                                 TokenRowsOfTest({100}), X, random_vector<Real>(400, 2));
    const auto Y = side.get(run.Y);
    EXPECT_FALSE(std::isnan(Y[69 * 4]));
    for (std::size_t token = 70; token < 100; ++token) EXPECT_TRUE(std::isnan(Y[token * 4]));
  });
}

#ifdef HETSGD_TEST_GPU
// The error names what was found and the most.
TYPED_TEST(AttentionTest, AGpuRefusesHeadsTooDeepForIt) {
  using Real = TypeParam;
  Side<Real> side{gpu<Real>()};
  const TokenRowsOfTest rows({3});
  const auto X = random_vector<Real>(rows.tokens * 3 * 257, 1);
  try {
    AttentionRun<Real>(side, {.heads = 1, .width = 257}, rows, X, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    const std::string what = error.what();
    EXPECT_NE(what.find("found 257 numbers in a head of attention, expected at most 256"),
              std::string::npos)
        << what;
  }
}
#endif

}  // namespace
}  // namespace hetsgd::test
