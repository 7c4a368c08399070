// Each kernel of a GPU against that of the CPU in double precision, and against itself: a second
// call gives the same bits.
#include <gtest/gtest.h>

#include <cstring>

#include "linalg/cuda/cuda_device.hpp"
#include "linalg/reference.hpp"
#include "support/gpu.hpp"

namespace hetsgd::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <class Real>
constexpr double kClose = sizeof(Real) == 4 ? 1e-5 : 1e-12;

template <class Real>
BasicDevice<Real>& gpu() {
  static const auto device = make_cuda_device<Real>(0);
  return *device;
}

using Results = std::vector<std::vector<double>>;

// A device with its operands. Operands are floats on every side, so all sides start from the same.
template <class Number>
struct Side {
  using Real = Number;

  BasicBuffer<Real> put(const std::vector<float>& values) {
    const std::vector<Real> host(values.begin(), values.end());
    BasicBuffer<Real> buffer(device, host.size());
    device.upload(buffer.data(), host.data(), host.size() * sizeof(Real));
    return buffer;
  }
  void take(const BasicBuffer<Real>& buffer) {
    std::vector<Real> host(buffer.size());
    device.download(host.data(), buffer.data(), host.size() * sizeof(Real));
    results.emplace_back(host.begin(), host.end());
  }
  void take(double number) { results.push_back({number}); }
  SparseRows<Real> stage(const RandomSparse& rows, bool values) {
    return device.stage(rows.view<Real>(values));
  }

  BasicDevice<Real>& device;
  Results results = {};
};

// `calculate(side)` leaves its results in side.results.
template <class Real, class Calculate>
void compare(const Calculate& calculate) {
  const auto cpu = make_cpu_device<double>(1);
  Side<double> expected{*cpu};
  Side<Real> first{gpu<Real>()}, second{gpu<Real>()};
  calculate(expected);
  calculate(first);
  calculate(second);
  ASSERT_EQ(first.results.size(), expected.results.size());
  for (std::size_t i = 0; i < expected.results.size(); ++i) {
    expect_close(first.results[i], expected.results[i], kClose<Real>,
                 ("result " + std::to_string(i)).c_str());
    ASSERT_EQ(std::memcmp(first.results[i].data(), second.results[i].data(),
                          first.results[i].size() * sizeof(double)),
              0)
        << "result " << i << " is not the same twice";
  }
}

template <class Real>
class Cuda : public ::testing::Test {};
TYPED_TEST_SUITE(Cuda, RealTypes);

const std::size_t kSizes[] = {0, 1, 255, 256, 1024, 1025, 4097, 100'003};

// --- memory --------------------------------------------------------------------------------------

TYPED_TEST(Cuda, NamesItselfAndRefusesWhatIsNotThere) {
  EXPECT_EQ(gpu<TypeParam>().name().rfind("cuda:0 (", 0), 0U);
  EXPECT_EQ(gpu<TypeParam>().name(), cuda_device_name(0));
  const int none = static_cast<int>(cuda_platform().gpus.size());
  try {
    make_cuda_device<TypeParam>(none);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    EXPECT_NE(error.hint().find("cuda:0 ("), std::string::npos) << error.hint();
  }
}

TYPED_TEST(Cuda, TransfersRoundTripAndTheHostMayReuseItsMemory) {
  auto& device = gpu<TypeParam>();
  for (const std::size_t bytes : {0UL, 1UL, 4UL << 20, (4UL << 20) + 3, (21UL << 20) + 5}) {
    std::vector<char> host(bytes), back(bytes);
    for (std::size_t i = 0; i < bytes; ++i) host[i] = static_cast<char>(i * 7 + i / 1000);
    const std::vector<char> original = host;
    void* const memory = device.allocate(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
    EXPECT_FALSE(device.host_accessible(memory));
    EXPECT_TRUE(device.host_accessible(host.data()));
    device.upload(memory, host.data(), bytes);
    std::fill(host.begin(), host.end(), 'x');
    device.download(back.data(), memory, bytes);
    EXPECT_EQ(back, original);
    device.release(memory);
  }
  EXPECT_TRUE(device.host_accessible(nullptr));
}

TYPED_TEST(Cuda, ExhaustionSaysHowMuchWasNeeded) {
  try {
    gpu<TypeParam>().allocate(std::size_t{1} << 50);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    EXPECT_NE(std::string(error.what()).find("out of memory"), std::string::npos) << error.what();
    EXPECT_FALSE(error.hint().empty());
  }
  compare<TypeParam>([](auto& side) {  // and the device is as good as before
    auto x = side.put({1, 2, 3});
    side.take(side.device.squared_norm(3, x.data()));
  });
}

// --- vectors -------------------------------------------------------------------------------------

TYPED_TEST(Cuda, Vectors) {
  for (const std::size_t n : kSizes) {
    SCOPED_TRACE(n);
    compare<TypeParam>([n](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto& device = side.device;
      auto x = side.put(random_vector<float>(n, 1)), y = side.put(random_vector<float>(n, 2));
      auto z = side.put(std::vector<float>(n, kNan)), v = side.put(std::vector<float>(n, kNan));
      side.take(device.dot(n, x.data(), y.data()));
      side.take(device.squared_norm(n, x.data()));
      const Products products = device.products(n, x.data(), y.data());
      for (const double sum : {products.xy, products.xx, products.yy}) side.take(sum);
      device.combine(n, 1.0 / 3, x.data(), -0.7, y.data(), z.data());
      side.take(z);
      device.axpby(n, Real(2), x.data(), Real(0), z.data());  // never reads z
      side.take(z);
      device.axpby(n, Real(-0.5), y.data(), Real(1), z.data());
      device.axpby(n, Real(0.25), x.data(), Real(0.75), z.data());
      side.take(z);
      device.axpby(n, Real(3), z.data(), Real(0), z.data());
      side.take(z);
      device.copy(n, z.data(), v.data());
      device.momentum_merge(n, x.data(), Real(0.9), v.data(), y.data());
      side.take(v);
      side.take(y);
      device.fill(n, Real(7), v.data());
      side.take(v);
    });
  }
}

TYPED_TEST(Cuda, OptimizerUpdates) {
  for (const std::size_t n : kSizes) {
    SCOPED_TRACE(n);
    compare<TypeParam>([n](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto& device = side.device;
      auto g = side.put(random_vector<float>(n, 1)), w = side.put(random_vector<float>(n, 2));
      auto m = side.put(random_vector<float>(n, 3)), v = side.put(random_vector<float>(n, 4, 0, 1));
      device.momentum_step(n,
                           MomentumRule<Real>{.gradient = Real(0.5),
                                              .decay = Real(0.1),
                                              .momentum = Real(0.9),
                                              .velocity = Real(0.3),
                                              .direct = Real(0.2)},
                           g.data(), m.data(), w.data());
      side.take(m);
      side.take(w);
      const MomentRule<Real> rule{.gradient = Real(0.5),
                                  .decay = Real(0.1),
                                  .beta1 = Real(0.9),
                                  .beta2 = Real(0.75),
                                  .fresh1 = Real(0.1),
                                  .fresh2 = Real(0.25),
                                  .first = Real(1.5),
                                  .second = Real(2),
                                  .epsilon = Real(0.1),
                                  .shrink = Real(0.2)};
      device.moment_step(n, rule, Real(0.3), g.data(), m.data(), v.data(), w.data());
      side.take(w);
      side.take(device.moment_update(n, rule, g.data(), w.data(), m.data(), v.data()));
      device.moment_apply(n, rule, Real(0.3), m.data(), v.data(), w.data());
      side.take(m);
      side.take(v);
      side.take(w);
    });
  }
}

TYPED_TEST(Cuda, Rows) {
  for (const std::size_t n : {1UL, 9UL, 128UL, 600UL}) {
    for (const std::size_t count : {0UL, 1UL, 50UL}) {
      SCOPED_TRACE(::testing::Message() << count << " rows of " << n);
      compare<TypeParam>([&](auto& side) {
        using Real = typename std::decay_t<decltype(side)>::Real;
        std::vector<std::uint32_t> rows;
        for (std::uint32_t r = 0; r < count; ++r) rows.push_back((r * 37 + 11) % 101);
        auto X = side.put(random_vector<float>(101 * n, 1));
        auto Y = side.put(random_vector<float>(101 * n, 2));
        side.device.add_rows(rows, n, Real(-0.5), X.data(), Y.data());
        side.take(Y);
        side.device.fill_rows(rows, n, Real(3), X.data());
        std::fill(rows.begin(), rows.end(), 0U);  // they may be reused at once
        side.take(X);
      });
    }
  }
}

// --- products ------------------------------------------------------------------------------------

TYPED_TEST(Cuda, Gemm) {
  struct Sizes {
    std::size_t m, n, k;
  };
  for (const Sizes& s : {Sizes{1, 1, 1},
                         {5, 7, 3},
                         {64, 983, 128},
                         {33, 1, 17},
                         {1, 40, 300},
                         {128, 9, 0},
                         {0, 5, 5},
                         {5, 0, 5},
                         {70, 50, 1000}}) {
    for (const int transposes : {0, 1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << s.m << "x" << s.n << "x" << s.k << " " << transposes);
      compare<TypeParam>([&](auto& side) {
        using Real = typename std::decay_t<decltype(side)>::Real;
        const Transpose a = transposes & 1 ? Transpose::yes : Transpose::no;
        const Transpose b = transposes & 2 ? Transpose::yes : Transpose::no;
        const std::size_t lda = (a == Transpose::yes ? s.m : s.k) + 3;
        const std::size_t ldb = (b == Transpose::yes ? s.k : s.n) + 2, ldc = s.n + 1;
        auto A = side.put(random_vector<float>((s.m + s.k) * lda, 1));
        auto B = side.put(random_vector<float>((s.k + s.n) * ldb, 2));
        auto C = side.put(random_vector<float>(s.m * ldc, 3));
        // What lies between the rows stays.
        side.device.gemm(a, b, s.m, s.n, s.k, Real(0.5), A.data(), lda, B.data(), ldb, Real(0.25),
                         C.data(), ldc);
        side.take(C);
        auto fresh = side.put(std::vector<float>(s.m * s.n, kNan));
        side.device.gemm(a, b, s.m, s.n, s.k, Real(2), A.data(), lda, B.data(), ldb, Real(0),
                         fresh.data(), s.n);
        side.take(fresh);
      });
    }
  }
}

struct SparseShape {
  std::size_t rows, columns, per_row, n;
};

// One column for all: a run of nonzeros longer than a warp. One row alone. Odd widths.
const SparseShape kSparseShapes[] = {{0, 10, 3, 8},    {1, 1, 1, 1},       {100, 1, 1, 130},
                                     {5, 1000, 40, 9}, {64, 300, 76, 128}, {33, 5000, 70, 983},
                                     {257, 40, 20, 33}};

TYPED_TEST(Cuda, SparseProducts) {
  for (const SparseShape& s : kSparseShapes) {
    for (const bool values : {true, false}) {
      SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.columns << "x" << s.n);
      const RandomSparse sparse(s.rows, s.columns, s.per_row, 5);
      compare<TypeParam>([&](auto& side) {
        using Real = typename std::decay_t<decltype(side)>::Real;
        const auto X = side.stage(sparse, values);
        auto W = side.put(random_vector<float>(s.columns * s.n, 1));
        auto bias = side.put(random_vector<float>(s.n, 2));
        auto Y = side.put(std::vector<float>(s.rows * s.n, kNan));
        side.device.sparse_forward(X, s.n, W.data(), bias.data(), true, Y.data());
        side.take(Y);
        side.device.sparse_forward(X, s.n, W.data(), nullptr, false, Y.data());
        side.take(Y);
        side.device.sparse_update(X, s.n, Real(-0.3), Y.data(), W.data());
        side.take(W);
      });
    }
  }
}

TYPED_TEST(Cuda, StagedBatchesOutliveTheHostsArraysAndOneMoreBatch) {
  auto& device = gpu<TypeParam>();
  RandomSparse first(20, 50, 7, 1);
  const std::vector<double> dense = first.dense(true);
  const auto staged = device.stage(first.template view<TypeParam>(true));
  std::fill(first.index.begin(), first.index.end(), 0U);
  std::fill(first.value.begin(), first.value.end(), kNan);
  const RandomSparse other(300, 50, 20, 2);
  device.stage(other.template view<TypeParam>(true));
  std::vector<float> identity(50 * 50);
  for (std::size_t i = 0; i < 50; ++i) identity[i * 51] = 1;
  Side<TypeParam> side{device};
  auto W = side.put(identity), Y = side.put(std::vector<float>(20 * 50));
  device.sparse_forward(staged, 50, W.data(), nullptr, false, Y.data());
  side.take(Y);
  EXPECT_EQ(side.results[0], dense);
  device.stage(other.template view<TypeParam>(true));
  EXPECT_THROW(device.sparse_forward(staged, 50, W.data(), nullptr, false, Y.data()), CheckFailure);
  EXPECT_THROW(device.sparse_forward(other.template view<TypeParam>(true), 50, W.data(), nullptr,
                                     false, Y.data()),
               CheckFailure);
}

// --- layers --------------------------------------------------------------------------------------

TYPED_TEST(Cuda, DenseLayers) {
  for (const std::size_t rows : {0UL, 1UL, 63UL, 300UL}) {
    for (const std::size_t n : {1UL, 33UL, 128UL, 983UL}) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << n);
      compare<TypeParam>([&](auto& side) {
        using Real = typename std::decay_t<decltype(side)>::Real;
        auto values = random_vector<float>(rows * n, 1);
        if (rows > 1) values[n] = kNan;  // stays
        auto Y = side.put(values), D = side.put(random_vector<float>(rows * n, 2));
        auto bias = side.put(random_vector<float>(n, 3));
        side.device.column_sums(rows, n, Real(0.5), D.data(), bias.data());
        side.take(bias);
        side.device.bias_relu(rows, n, bias.data(), Y.data());
        side.take(Y);
        side.device.relu_backward(rows, n, Y.data(), D.data());
        side.take(D);
      });
    }
  }
}

TYPED_TEST(Cuda, SoftmaxAndSigmoidRows) {
  for (const std::size_t rows : {0UL, 1UL, 40UL, 130UL}) {
    for (const std::size_t n : {1UL, 40UL, 983UL, 4097UL, 9000UL}) {
      SCOPED_TRACE(::testing::Message() << rows << "x" << n);
      const RandomSparse labels(rows, n, 6, 4);
      compare<TypeParam>([&](auto& side) {
        using Real = typename std::decay_t<decltype(side)>::Real;
        const auto Y = side.stage(labels, false);
        auto bias = side.put(random_vector<float>(n, 1));
        for (Real* const b : {bias.data(), static_cast<Real*>(nullptr)}) {
          auto Z = side.put(random_vector<float>(rows * n, 2, -20, 20));
          side.take(side.device.softmax_loss(Y, n, b, Z.data()));
          side.take(Z);
          auto G = side.put(random_vector<float>(rows * n, 2, -20, 20));
          side.take(side.device.softmax_cross_entropy(Y, n, b, Real(0.125), G.data()));
          side.take(G);
          auto z = side.put(random_vector<float>(rows, 3, -90, 90));
          side.take(side.device.sigmoid_loss(Y, b, z.data()));
          side.take(z);
          side.take(side.device.sigmoid_cross_entropy(Y, b, Real(0.5), z.data()));
          side.take(z);
        }
      });
    }
  }
}

TYPED_TEST(Cuda, DivergedLogitsShowInTheLoss) {
  const RandomSparse labels(6, 5000, 4, 1);
  for (const float broken : {kNan, std::numeric_limits<float>::infinity()}) {
    for (const std::size_t at : {0UL, 4999UL, 5000UL * 5 + 100}) {
      Side<TypeParam> side{gpu<TypeParam>()};
      auto logits = random_vector<float>(6 * 5000, 1);
      for (std::size_t row = 0; row < 6; ++row) logits[row * 5000 + at % 5000] = broken;
      const auto Y = side.stage(labels, false);
      auto Z = side.put(logits), G = side.put(logits);
      EXPECT_TRUE(std::isnan(side.device.softmax_loss(Y, 5000, nullptr, Z.data())));
      EXPECT_TRUE(
          std::isnan(side.device.softmax_cross_entropy(Y, 5000, nullptr, TypeParam(1), G.data())));
    }
  }
}

struct LayerShape {
  std::size_t rows, inputs, outputs;
};

// The last has two blocks of labels.
const LayerShape kLayerShapes[] = {{1, 1, 1},      {5, 7, 9},       {64, 128, 983},
                                   {33, 40, 4097}, {300, 50, 9000}, {40, 300, 1111},
                                   {0, 8, 20},     {1024, 6, 9000}};

template <class S>
void layer_on(S& side, const LayerShape& s, const RandomSparse& labels, double alpha, double beta,
              bool in_place) {
  using Real = typename S::Real;
  auto A = side.put(random_vector<float>(s.rows * s.inputs, 2));
  auto W = side.put(random_vector<float>(s.outputs * s.inputs, 3));
  auto b = side.put(random_vector<float>(s.outputs, 4));
  const float old = beta == 0 ? kNan : 0.5F;
  auto G = side.put(std::vector<float>(W.size(), old));
  auto g = side.put(std::vector<float>(b.size(), old));
  auto dA = side.put(std::vector<float>(A.size(), kNan));
  side.take(side.device.softmax_layer(side.stage(labels, false),
                                      {.inputs = s.inputs,
                                       .outputs = s.outputs,
                                       .input = A.data(),
                                       .weight = W.data(),
                                       .bias = b.data(),
                                       .scale = Real(1) / Real(8),
                                       .alpha = Real(alpha),
                                       .beta = Real(beta),
                                       .weight_gradient = in_place ? W.data() : G.data(),
                                       .bias_gradient = in_place ? b.data() : g.data(),
                                       .input_gradient = dA.data()}));
  side.take(in_place ? W : G);
  side.take(in_place ? b : g);
  side.take(dA);
}

TYPED_TEST(Cuda, SoftmaxLayerInAllItsUses) {
  for (const LayerShape& s : kLayerShapes) {
    SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.inputs << "x" << s.outputs);
    const RandomSparse labels(s.rows, s.outputs, 4, 1);
    compare<TypeParam>([&](auto& side) { layer_on(side, s, labels, 1, 0, false); });
    compare<TypeParam>([&](auto& side) { layer_on(side, s, labels, 2, 0.5, false); });
    compare<TypeParam>([&](auto& side) { layer_on(side, s, labels, -0.5, 1, true); });
  }
}

TYPED_TEST(Cuda, LogitsThatAreNotKeptGiveTheSameBits) {
  const LayerShape s = kLayerShapes[std::size(kLayerShapes) - 1];
  const RandomSparse labels(s.rows, s.outputs, 4, 1);
  const auto forgetful = make_cuda_device<TypeParam>(0, {.logit_bytes = 1});
  Side<TypeParam> kept{gpu<TypeParam>()}, twice{*forgetful};
  layer_on(kept, s, labels, -0.5, 1, true);
  layer_on(twice, s, labels, -0.5, 1, true);
  EXPECT_EQ(kept.results, twice.results);
}

TYPED_TEST(Cuda, TopK) {
  const auto cpu = make_cpu_device<TypeParam>(1);
  for (const std::size_t n : {1UL, 5UL, 16UL, 17UL, 983UL, 16'385UL, 60'000UL}) {
    for (const std::size_t k : {1UL, 3UL, 5UL, 16UL}) {
      for (const std::size_t rows : {0UL, 1UL, 30UL}) {
        if (k > n) continue;
        std::vector<float> Z = random_vector<float>(rows * n, 1);
        for (std::size_t i = 0; i < Z.size(); ++i) Z[i] = std::round(Z[i] * 50);  // ties
        for (std::size_t i = 0; i < Z.size(); i += 11) Z[i] = kNan;
        Side<TypeParam> here{*cpu}, there{gpu<TypeParam>()};
        std::vector<std::uint32_t> expected(rows * k), actual(rows * k);
        cpu->top_k(rows, n, here.put(Z).data(), k, expected.data());
        const auto logits = there.put(Z);
        there.device.top_k(rows, n, logits.data(), k, actual.data());
        EXPECT_EQ(actual, expected) << rows << "x" << n << ", k " << k;
      }
    }
  }
}

// --- several devices on one GPU ------------------------------------------------------------------

TYPED_TEST(Cuda, DevicesOfOneGpuWorkSideBySide) {
  const auto second = make_cuda_device<TypeParam>(0);
  Side<TypeParam> a{gpu<TypeParam>()}, b{*second};
  auto x = a.put(random_vector<float>(100'000, 1)), y = b.put(random_vector<float>(100'000, 1));
  for (int i = 0; i < 50; ++i) {
    a.device.axpby(x.size(), TypeParam(1), x.data(), TypeParam(0.5), x.data());
    b.device.axpby(y.size(), TypeParam(1), y.data(), TypeParam(0.5), y.data());
  }
  a.take(x);
  b.take(y);
  EXPECT_EQ(a.results, b.results);
}

}  // namespace
}  // namespace hetsgd::test

int main(int argc, char** argv) { return hetsgd::test::run_gpu_tests(argc, argv); }
