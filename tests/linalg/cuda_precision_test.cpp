// The precision of dense products on a GPU.
#include "linalg/softmax_problem.hpp"

namespace hetsgd::test {
namespace {

// --precision: every product of a layer, with the factors rounded to the format's mantissa and no
// further. The bound takes a unit in the last place for each factor: tensor cores may cut off.
TEST(CudaPrecision, ErrorsAreThoseOfTheMantissa) {
  struct Format {
    Precision precision;
    double unit;
  };
  const std::size_t m = 64, n = 256, k = 128;
  for (const Format& format :
       {Format{Precision::tf32, std::ldexp(1, -10)}, {Precision::bf16, std::ldexp(1, -7)}}) {
    const auto device = make_cuda_device<float>(0, {.precision = format.precision});
    for (const int transposes : {0, 1, 2, 3}) {
      const Transpose a = transposes & 1 ? Transpose::yes : Transpose::no;
      const Transpose b = transposes & 2 ? Transpose::yes : Transpose::no;
      const auto A = random_vector<float>(m * k, 1), B = random_vector<float>(k * n, 2);
      Side<float> low{*device}, full{gpu<float>()};
      for (Side<float>* const side : {&low, &full}) {
        auto C = side->put(std::vector<float>(m * n, kNan));
        side->device.gemm(a, b, m, n, k, 1.0F, side->put(A).data(), a == Transpose::yes ? m : k,
                          side->put(B).data(), b == Transpose::yes ? k : n, 0.0F, C.data(), n);
        side->take(C);
      }
      double worst = 0;
      for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          double exact = 0, size = 0;
          for (std::size_t p = 0; p < k; ++p) {
            const double product = static_cast<double>(A[transposes & 1 ? p * m + i : i * k + p]) *
                                   static_cast<double>(B[transposes & 2 ? j * k + p : p * n + j]);
            exact += product;
            size += std::abs(product);
          }
          const double bound = size * (2.1 * format.unit + static_cast<double>(k) * 1.2e-7);
          const double error = std::abs(low.results[0][i * n + j] - exact);
          ASSERT_LE(error, bound) << i << "," << j;
          ASSERT_LE(std::abs(full.results[0][i * n + j] - exact), 7e-6 * size);
          worst = std::max(worst, error / size);
        }
      }
      // It is a reduced one, where the GPU has it; cuBLAS may take TF32 for BF16. Factors rounded
      // to the nearest are off by a quarter of TF32's unit on average, in both directions, so k
      // products together by a quarter of it over sqrt(k); the largest of m n errors is more. Full
      // precision stays below a third of that.
      if (cuda_platform().gpus[0].major >= 8) {
        EXPECT_GT(worst, std::ldexp(1, -10) / (4 * std::sqrt(static_cast<double>(k))));
      }
    }
  }
}

// A softmax layer of 128 inputs takes kernels of its own on GPUs that have their instructions, and
// is off by the factors' mantissa there as elsewhere, not more and not less.
TEST(CudaPrecision, OfASoftmaxLayer) {
  const LayerProblem<float> p({64, 128, 983});
  const LayerReference e = layer_by_definition(p);
  for (const auto& [precision, unit] :
       {std::pair{Precision::tf32, std::ldexp(1, -10)}, {Precision::bf16, std::ldexp(1, -7)}}) {
    const auto device = make_cuda_device<float>(0, {.precision = precision});
    Side<float> side{*device};
    for (int call = 0; call < 2; ++call) {
      const auto found = p.run(side, 1, 0, false);
      EXPECT_NEAR(found.loss, e.loss, unit * std::abs(e.loss));
      for (const auto& [buffer, exact] :
           {std::pair{&found.G, &e.dW}, {&found.g, &e.db}, {&found.dA, &e.dA}}) {
        side.take(*buffer);
        EXPECT_LT(relative_error(side.results.back(), *exact), 2 * unit);
        if (cuda_platform().gpus[0].major >= 8) {
          EXPECT_GT(relative_error(side.results.back(), *exact), unit / 1000);
        }
      }
    }
    const std::size_t half = side.results.size() / 2;
    for (std::size_t i = 0; i < half; ++i) EXPECT_EQ(side.results[i], side.results[half + i]);
  }
}

TEST(CudaPrecision, LeavesDoubleAlone) {
  const auto device = make_cuda_device<double>(0, {.precision = Precision::bf16});
  Side<double> low{*device}, full{gpu<double>()};
  for (Side<double>* const side : {&low, &full}) {
    auto A = side->put(random_vector<float>(400, 1)), C = side->put(std::vector<float>(400));
    side->device.gemm(Transpose::no, Transpose::no, 20, 20, 20, 1.0, A.data(), 20, A.data(), 20,
                      0.0, C.data(), 20);
    side->take(C);
  }
  EXPECT_EQ(low.results, full.results);
}

}  // namespace
}  // namespace hetsgd::test
