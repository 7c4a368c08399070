// Factorisation machines on a GPU.
#include "linalg/cuda_compare.hpp"
#include "linalg/factorization_kernels.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class CudaFactorization : public ::testing::Test {};
TYPED_TEST_SUITE(CudaFactorization, RealTypes);

TYPED_TEST(CudaFactorization, ForwardAndBackward) {
  struct Shape {
    std::size_t rows, columns, per_row, n, K;
  };
  for (const Shape& s : {Shape{0, 5, 2, 3, 2},
                         {1, 1, 1, 1, 1},
                         {130, 40, 12, 1, 8},
                         {64, 9, 4, 5, 3},
                         {40, 300, 30, 50, 16}}) {
    SCOPED_TRACE(::testing::Message() << s.rows << "x" << s.columns);
    const RandomSparse rows(s.rows, s.columns, s.per_row, 6);
    compare<TypeParam>([&](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto& factors = kernels<BasicFactorizationKernels<Real>>(side.device);
      const std::size_t width = s.n * s.K;
      const auto X = side.stage(rows, true);
      auto V = side.put(random_vector<float>(s.columns * width, 1));
      auto Z = side.put(random_vector<float>(s.rows * s.n, 2));
      auto S = side.put(random_vector<float>(s.rows * width, 3));
      auto G = side.put(random_vector<float>(s.columns * width, 4));
      factors.forward(X, s.n, s.K, V.data(), S.data(), Z.data());
      side.take(S);
      side.take(Z);
      factors.backward(X, s.n, s.K, Real(0.25), Z.data(), S.data(), V.data(), G.data());
      side.take(G);
      factors.backward(X, s.n, s.K, Real(-0.125), Z.data(), S.data(), V.data(), V.data());
      side.take(V);
    });
  }
}

}  // namespace
}  // namespace hetsgd::test
