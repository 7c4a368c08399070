// Embeddings, norms, gelu, and the softmax over gathered rows, against their definitions.
#include "linalg/devices.hpp"
#include "linalg/token_kernels.hpp"
#include "linalg/token_rows.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class TokenTest : public ::testing::Test {};
TYPED_TEST_SUITE(TokenTest, RealTypes);

template <class Real>
BasicTokenKernels<Real>& token_kernels(BasicDevice<Real>& device) {
  return kernels<BasicTokenKernels<Real>>(device);
}

template <class Real>
std::vector<Real> random_tokens(std::size_t count, std::size_t kinds) {
  RandomStream random(4, Purpose::test, 79);
  std::vector<Real> tokens(count);
  for (Real& each : tokens) each = static_cast<Real>(random.below(kinds));
  return tokens;
}

TYPED_TEST(TokenTest, EmbedsTokensPositionsAndSegments) {
  using Real = TypeParam;
  for (const EmbedShape& shape : {EmbedShape{.tokens = 9, .width = 5, .block = 40, .segments = 2},
                                  {.tokens = 300, .width = 600, .block = 40},
                                  {.tokens = 2, .width = 16}}) {
    for (const TokenRowsOfTest& rows : {TokenRowsOfTest({30, 1, 17}), TokenRowsOfTest({3, 8}, 9)}) {
      const std::size_t c = shape.width;
      const auto X = random_tokens<Real>(rows.tokens, shape.tokens);
      const auto w = random_vector<Real>(shape.parameters(), 1);
      const auto dY = random_vector<Real>(rows.tokens * c, 2);
      std::vector<double> y(rows.tokens * c), tokens(shape.parameters()), rest(shape.parameters());
      rows.each([&](std::size_t, std::size_t t, std::size_t token) {
        const auto kind = static_cast<std::size_t>(X[token]);
        const auto use = [&](std::size_t row, bool of_tokens) {
          for (std::size_t j = 0; j < c; ++j) {
            y[token * c + j] += double(w[row * c + j]);
            (of_tokens ? tokens : rest)[row * c + j] += double(dY[token * c + j]);
          }
        };
        use(kind, true);
        if (shape.block > 0) use(shape.tokens + t, false);
        if (shape.segments > 0) use(shape.tokens + shape.block, false);
      });
      on_devices<Real>([&](auto& side) {
        auto& kernels = token_kernels(side.device);
        const auto ids = side.put(X), at = side.put(w), dy = side.put(dY);
        auto Y = side.room(y.size());
        kernels.embed(shape, rows.spans(), ids.data(), at.data(), Y.data());
        side.expect(Y, y, "Y");
        struct Factors {
          double alpha, tokens_beta, beta;
        };
        for (const Factors& f :
             {Factors{1, 0, 0}, Factors{-0.5, 1, 1}, Factors{2, 1, 0}, Factors{2, 0.5, 1}}) {
          const std::size_t own = shape.tokens * c;
          std::vector<Real> before = w;
          if (f.tokens_beta == 0) std::fill_n(before.begin(), own, Real(kNan));
          if (f.beta == 0)
            std::fill(before.begin() + std::ptrdiff_t(own), before.end(), Real(kNan));
          auto to = side.put(before);
          kernels.embed_gradient(shape, rows.spans(), ids.data(), dy.data(), Real(f.alpha),
                                 Real(f.tokens_beta), Real(f.beta), to.data());
          side.expect(to,
                      numbers(w.size(),
                              [&](std::size_t i) {
                                const double b = i < own ? f.tokens_beta : f.beta;
                                return (b == 0 ? 0 : b * double(w[i])) +
                                       f.alpha * (tokens[i] + rest[i]);
                              }),
                      "gradient");
        }
      });
    }
  }
}

struct NormReference {
  std::vector<double> Y, dX, G, g;
};

NormReference norm_by_definition(std::size_t n, std::size_t c, const std::vector<double>& X,
                                 double epsilon, const std::vector<double>& scale,
                                 const std::vector<double>& shift, const std::vector<double>& dY) {
  NormReference e{std::vector<double>(n * c), std::vector<double>(n * c), std::vector<double>(c),
                  std::vector<double>(c)};
  for (std::size_t i = 0; i < n; ++i) {
    const double* const x = &X[i * c];
    double mean = 0, variance = 0, q_mean = 0, qx_mean = 0;
    for (std::size_t j = 0; j < c; ++j) mean += x[j] / double(c);
    for (std::size_t j = 0; j < c; ++j) variance += (x[j] - mean) * (x[j] - mean) / double(c);
    const double r = 1 / std::sqrt(variance + epsilon);
    for (std::size_t j = 0; j < c; ++j) {
      const double centred = (x[j] - mean) * r, dy = dY[i * c + j], q = scale[j] * dy;
      e.Y[i * c + j] = scale[j] * centred + shift[j];
      e.G[j] += dy * centred;
      e.g[j] += dy;
      q_mean += q / double(c);
      qx_mean += q * centred / double(c);
    }
    for (std::size_t j = 0; j < c; ++j) {
      const double centred = (x[j] - mean) * r;
      e.dX[i * c + j] = r * (scale[j] * dY[i * c + j] - q_mean - centred * qx_mean);
    }
  }
  return e;
}

TYPED_TEST(TokenTest, NormsTokens) {
  using Real = TypeParam;
  struct Size {
    std::size_t tokens, width;
  };
  for (const Size& size : {Size{1, 1}, Size{3, 7}, Size{200, 16}, Size{70, 100}, Size{130, 771}}) {
    const std::size_t n = size.tokens, c = size.width;
    SCOPED_TRACE(::testing::Message() << n << "x" << c);
    const auto X = random_vector<Real>(n * c, 1, 0, 3), dY = random_vector<Real>(n * c, 2),
               scale = random_vector<Real>(c, 3, 0.5, 2), shift = random_vector<Real>(c, 4);
    const Real epsilon = Real(1e-2);
    const NormReference e =
        norm_by_definition(n, c, widen(X), double(epsilon), widen(scale), widen(shift), widen(dY));
    on_devices<Real>([&](auto& side) {
      auto& kernels = token_kernels(side.device);
      const auto x = side.put(X), dy = side.put(dY), s = side.put(scale), b = side.put(shift);
      auto Y = side.room(n * c), plain = side.room(n * c), statistics = side.room(2 * n);
      kernels.norm(n, c, x.data(), epsilon, s.data(), nullptr, statistics.data(), plain.data());
      kernels.norm(n, c, x.data(), epsilon, s.data(), b.data(), statistics.data(), Y.data());
      side.expect(Y, e.Y, "Y");
      side.expect(plain, numbers(n * c, [&](auto i) { return e.Y[i] - double(shift[i % c]); }),
                  "Y without shift");
      auto dX = side.room(n * c), G = side.room(c), g = side.room(c);
      kernels.norm_gradient(n, c, x.data(), statistics.data(), s.data(), dy.data(), 0, dX.data(),
                            Real(1), 0, G.data(), g.data());
      side.expect(dX, e.dX, "dX", 4);
      side.expect(G, e.G, "G", 4);
      side.expect(g, e.g, "g");
      // In place; the parameters move behind.
      auto in_place = side.put(dY), moved = side.put(scale), moved_shift = side.put(shift);
      kernels.norm_gradient(n, c, x.data(), statistics.data(), moved.data(), in_place.data(), 0,
                            in_place.data(), Real(-0.5), 1, moved.data(), moved_shift.data());
      EXPECT_EQ(side.get(in_place), side.get(dX));
      side.expect(moved, numbers(c, [&](auto j) { return double(scale[j]) - 0.5 * e.G[j]; }), "G",
                  4);
      auto sum = side.put(X), none = side.room(c);
      kernels.norm_gradient(n, c, x.data(), statistics.data(), s.data(), dy.data(), 1, sum.data(),
                            Real(1), 0, none.data(), nullptr);
      side.expect(sum, numbers(n * c, [&](auto i) { return double(X[i]) + e.dX[i]; }), "sum", 4);
      kernels.norm_gradient(n, c, x.data(), statistics.data(), s.data(), dy.data(), 0, nullptr,
                            Real(1), 0, none.data(), nullptr);
      EXPECT_EQ(side.get(none), side.get(G));
    });
  }
}

TYPED_TEST(TokenTest, GeluOfBothForms) {
  using Real = TypeParam;
  auto X = random_vector<Real>(5000, 1, -9, 9);
  for (const Real x : {Real(0), Real(1.2), Real(-1.2), Real(40), Real(-40)}) X.push_back(x);
  const std::size_t n = X.size();
  const auto dY = random_vector<Real>(n, 2);
  for (const GeluLaw law : {GeluLaw::exact, GeluLaw::tanh}) {
    const auto value = [&](double x) {
      const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      return law == GeluLaw::exact ? 0.5 * std::erfc(-x / M_SQRT2) : 0.5 * (1 + std::tanh(u));
    };
    const auto slope = [&](double x) {
      const double t = 2 * value(x) - 1;
      return value(x) + (law == GeluLaw::exact ? x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI)
                                               : 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) *
                                                     (1 + 3 * 0.044715 * x * x));
    };
    on_devices<Real>([&](auto& side) {
      const auto x = side.put(X), dy = side.put(dY);
      auto Y = side.room(n), dX = side.put(dY), sum = side.put(X);
      auto& kernels = token_kernels(side.device);
      kernels.gelu(law, n, x.data(), Y.data());
      const double tolerance = sizeof(Real) == 4 ? 1e-7 : 1e-15;
      const auto y = side.get(Y);
      for (std::size_t i = 0; i < n; ++i) {
        const auto at = double(X[i]);
        const double rounding = 0.6 * tolerance * std::abs(double(y[i]));
        EXPECT_NEAR(double(y[i]), at * value(at),
                    tolerance * std::max(1.0, std::abs(at)) + rounding)
            << at;
      }
      side.take(Y);
      kernels.gelu_gradient(law, n, x.data(), dX.data(), 0, dX.data());
      side.expect(dX, numbers(n, [&](auto i) { return double(dY[i]) * slope(double(X[i])); }),
                  "dX");
      kernels.gelu_gradient(law, n, x.data(), dy.data(), 1, sum.data());
      side.expect(
          sum,
          numbers(n, [&](auto i) { return double(X[i]) + double(dY[i]) * slope(double(X[i])); }),
          "sum");
    });
  }
}

TYPED_TEST(TokenTest, GeluPassesNan) {
  using Real = TypeParam;
  on_devices<Real>([&](auto& side) {
    const auto X = side.put(std::vector<Real>(19, Real(kNan)));
    for (const GeluLaw law : {GeluLaw::exact, GeluLaw::tanh}) {
      auto Y = side.put(std::vector<Real>(19, Real(1)));
      token_kernels(side.device).gelu(law, 19, X.data(), Y.data());
      for (const Real y : side.get(Y)) EXPECT_TRUE(std::isnan(y));
    }
  });
}

// --- the softmax of tokens ---------------------------------------------------------------------

// Some rows of a map have a target each.
struct TokenTargets {
  TokenTargets(std::size_t tokens, std::size_t outputs, std::size_t every) {
    RandomStream random(5, Purpose::test, 80);
    for (std::size_t token = every / 2; token < tokens; token += every) {
      row.push_back(static_cast<std::uint32_t>(token));
      target.push_back(static_cast<std::uint32_t>(random.below(outputs)));
      begin.push_back(target.size());
    }
  }
  template <class Real>
  SparseRows<Real> labels(std::size_t outputs) const {
    return {target.size(), outputs, nullptr, begin.data(), target.data(), nullptr};
  }
  std::vector<std::uint32_t> row, target;
  std::vector<std::uint64_t> begin{0};
};

template <class Real>
struct TokenSoftmaxRun {
  double loss;
  BasicBuffer<Real> dA, G, g;
};

template <class Real>
struct TokenSoftmaxProblem {
  TokenSoftmaxProblem(std::size_t rows, std::size_t inputs, std::size_t kinds, std::size_t every)
      : tokens(rows),
        width(inputs),
        outputs(kinds),
        targets(rows, kinds, every),
        A(random_vector<Real>(rows * inputs, 1)),
        W(random_vector<Real>(kinds * inputs, 2)),
        b(random_vector<Real>(kinds, 3)) {}

  TokenSoftmaxRun<Real> run(Side<Real>& side, double smoothing, bool bias, bool in_place) const {
    const auto input = side.put(A);
    auto weight = side.put(W), offset = side.put(b);
    TokenSoftmaxRun<Real> run{0, side.room(A.size()), side.room(W.size()), side.room(b.size())};
    SoftmaxLayer<Real> layer{.inputs = width,
                             .outputs = outputs,
                             .row = targets.row.data(),
                             .input = input.data(),
                             .weight = weight.data(),
                             .bias = bias ? offset.data() : nullptr,
                             .smoothing = Real(smoothing),
                             .scale = Real(kScale),
                             .weight_gradient = run.G.data(),
                             .bias_gradient = bias ? run.g.data() : nullptr,
                             .input_gradient = run.dA.data()};
    if (in_place) {
      layer.alpha = Real(-1);
      layer.beta = Real(1);
      layer.weight_gradient = weight.data();
      layer.bias_gradient = bias ? offset.data() : nullptr;
    }
    run.loss = output_kernels(side.device)
                   .softmax_layer(side.device.stage(targets.labels<Real>(outputs)), layer);
    if (in_place) {
      run.G = std::move(weight);
      run.g = std::move(offset);
    }
    return run;
  }

  static constexpr double kScale = 0.25;
  std::size_t tokens, width, outputs;
  TokenTargets targets;
  std::vector<Real> A, W, b;
};

struct TokenSoftmaxReference {
  double loss = 0;
  std::vector<double> dA, G, g;
};

template <class Real>
TokenSoftmaxReference token_softmax_by_definition(const TokenSoftmaxProblem<Real>& p,
                                                  double smoothing, bool bias) {
  const std::size_t width = p.width, outputs = p.outputs;
  TokenSoftmaxReference e{0, std::vector<double>(p.A.size(), double(kNan)),
                          std::vector<double>(p.W.size()), std::vector<double>(outputs)};
  for (std::size_t r = 0; r < p.targets.row.size(); ++r) {
    const std::size_t row = p.targets.row[r];
    std::vector<double> z(outputs);
    for (std::size_t l = 0; l < outputs; ++l) {
      z[l] = bias ? double(p.b[l]) : 0;
      for (std::size_t h = 0; h < width; ++h) {
        z[l] += double(p.A[row * width + h]) * double(p.W[l * width + h]);
      }
    }
    double sum = 0, mean = 0;
    for (const double value : z) {
      sum += std::exp(value);
      mean += value / double(outputs);
    }
    e.loss += std::log(sum) - (1 - smoothing) * z[p.targets.target[r]] - smoothing * mean;
    for (std::size_t h = 0; h < width; ++h) e.dA[row * width + h] = 0;
    for (std::size_t l = 0; l < outputs; ++l) {
      const double target =
          (l == p.targets.target[r] ? 1 - smoothing : 0) + smoothing / double(outputs);
      const double d = p.kScale * (std::exp(z[l]) / sum - target);
      e.g[l] += d;
      for (std::size_t h = 0; h < width; ++h) {
        e.dA[row * width + h] += d * double(p.W[l * width + h]);
        e.G[l * width + h] += d * double(p.A[row * width + h]);
      }
    }
  }
  return e;
}

TYPED_TEST(TokenTest, SoftmaxOfGatheredRowsWithSmoothing) {
  using Real = TypeParam;
  struct Case {
    std::size_t tokens, width, outputs, every;
  };
  struct Form {
    double smoothing;
    bool bias;
  };
  for (const Case& each : {Case{1, 1, 2, 1}, Case{90, 20, 7, 1}, Case{300, 33, 62, 3},
                           Case{64, 40, 2500, 1}, Case{40, 128, 1111, 7}}) {
    const std::size_t width = each.width, outputs = each.outputs;
    const TokenSoftmaxProblem<Real> p(each.tokens, width, outputs, each.every);
    for (const Form& form : {Form{0, true}, Form{0.1, false}, Form{0.3, true}}) {
      const double smoothing = form.smoothing;
      const bool bias = form.bias;
      SCOPED_TRACE(::testing::Message()
                   << each.tokens << "x" << width << "x" << outputs << ", smoothing " << smoothing);
      const TokenSoftmaxReference e = token_softmax_by_definition(p, smoothing, bias);
      on_devices<Real>([&](auto& side) {
        const auto found = p.run(side, smoothing, bias, false);
        side.expect(found.loss, e.loss, kTolerance<Real>, "loss");
        side.expect(found.dA, e.dA, "dA");
        side.expect(found.G, e.G, "G", 4);
        if (bias) side.expect(found.g, e.g, "g", 4);
        const auto moved = p.run(side, smoothing, bias, true);
        EXPECT_EQ(found.loss, moved.loss);
        EXPECT_TRUE(same_bits({widen(side.get(moved.dA))}, {widen(side.get(found.dA))}));
        side.expect(moved.G, numbers(e.G.size(), [&](auto i) { return double(p.W[i]) - e.G[i]; }),
                    "the weights moved", 4);
      });
    }
  }
}

#ifdef HETSGD_TEST_GPU
// Products of halves, and blocks of labels of which the GPU keeps none.
TEST(GpuTokens, SoftmaxWithSmoothingInSeveralBlocks) {
  const TokenSoftmaxProblem<float> p(40, 64, 1111, 3);
  const TokenSoftmaxReference e = token_softmax_by_definition(p, 0.1, false);
  for (const CudaDeviceOptions& options :
       {CudaDeviceOptions{.split_from_logits = 1},
        CudaDeviceOptions{.logit_bytes = 1, .logit_block_bytes = 20'000},
        CudaDeviceOptions{.logit_bytes = 1, .logit_block_bytes = 20'000, .split_from_logits = 1}}) {
    SCOPED_TRACE(::testing::Message() << options.split_from_logits << options.logit_bytes);
    const auto device = make_cuda_device<float>(0, options);
    on_device(*device, [&](auto& side) {
      const auto found = p.run(side, 0.1, false, false);
      side.expect(found.loss, e.loss, kTolerance<float>, "loss");
      side.expect(found.dA, e.dA, "dA");
      side.expect(found.G, e.G, "G", 4);
    });
  }
}
#endif

TYPED_TEST(TokenTest, SoftmaxOfGatheredRowsHasTheLossOfOtherModels) {
  using Real = TypeParam;
  const TokenSoftmaxProblem<Real> p(70, 48, 300, 1);
  const auto check = [&](auto& side) {
    const auto A = side.put(p.A);
    auto W = side.put(p.W), b = side.put(p.b), G = side.room(p.W.size()), g = side.room(p.b.size()),
         dA = side.room(p.A.size());
    const double loss =
        output_kernels(side.device)
            .softmax_layer(side.device.stage(p.targets.template labels<Real>(p.outputs)),
                           {.inputs = p.width,
                            .outputs = p.outputs,
                            .input = A.data(),
                            .weight = W.data(),
                            .bias = b.data(),
                            .scale = Real(p.kScale),
                            .weight_gradient = G.data(),
                            .bias_gradient = g.data(),
                            .input_gradient = dA.data()});
    EXPECT_EQ(p.run(side, 0, true, false).loss, loss);
  };
  if constexpr (kOnGpu) {
    on_device(gpu<Real>(), check);
  } else {
    on_device(*make_cpu_device<Real>(1), check);
  }
}

TYPED_TEST(TokenTest, RanksOfGatheredRows) {
  using Real = TypeParam;
  const TokenSoftmaxProblem<Real> p(120, 24, 90, 5);
  std::vector<Real> gathered;
  for (const std::uint32_t row : p.targets.row) {
    gathered.insert(gathered.end(), &p.A[row * p.width], &p.A[row * p.width] + p.width);
  }
  on_devices<Real>([&](auto& side) {
    const auto A = side.put(p.A), own = side.put(gathered), W = side.put(p.W);
    const auto labels = side.device.stage(p.targets.template labels<Real>(p.outputs));
    auto room = side.room(labels.rows);
    auto* const top = reinterpret_cast<std::uint32_t*>(room.data());
    SoftmaxLayer<Real> layer{
        .inputs = p.width, .outputs = p.outputs, .input = own.data(), .weight = W.data()};
    const double loss = output_kernels(side.device).softmax_ranks(labels, layer, 1, top);
    const std::vector<Real> expected = side.get(room);
    layer.row = p.targets.row.data();
    layer.input = A.data();
    EXPECT_EQ(output_kernels(side.device).softmax_ranks(labels, layer, 1, top), loss);
    EXPECT_TRUE(same_bits({widen(side.get(room))}, {widen(expected)}));
  });
}

}  // namespace
}  // namespace hetsgd::test
