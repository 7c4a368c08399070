// Convolutions, what stands between them, normalisations and gates on a GPU.
#include "linalg/convolution_cases.hpp"
#include "linalg/cuda_compare.hpp"
#include "linalg/host_blocks.hpp"
#include "linalg/image_kernels.hpp"
#include "linalg/normalisation_kernels.hpp"
#include "linalg/sequence_kernels.hpp"
#include "support/image_shapes.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class CudaImages : public ::testing::Test {};
TYPED_TEST_SUITE(CudaImages, RealTypes);

TYPED_TEST(CudaImages, Convolutions) {
  for (const ConvolutionShape& s :
       {convolution_of(1, 9, 9, 6, 5, 5, 1, 2, 2, 1), convolution_of(3, 7, 6, 5, 3, 2, 1, 0, 0, 1),
        convolution_of(4, 8, 8, 6, 3, 3, 2, 1, 1, 2), convolution_of(6, 5, 5, 8, 1, 1, 1, 0, 0, 1),
        convolution_of(2, 11, 11, 3, 3, 3, 4, 0, 0, 1)}) {
    for (const std::size_t n : {std::size_t{1}, std::size_t{3}}) {
      SCOPED_TRACE(::testing::Message() << s.in_channels << " x " << s.in_height << " by "
                                        << s.kernel_height << ", " << n << " samples");
      compare<TypeParam>([&](auto& side) { every_convolution(side, s, n, 0); });
    }
  }
}

TYPED_TEST(CudaImages, Pools) {
  for (const PoolShape& s : pool_shapes()) {
    constexpr std::size_t n = 2;
    compare<TypeParam>([&](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto& image = kernels<BasicImageKernels<Real>>(side.device);
      std::vector<float> x = random_vector<float>(n * s.inputs(), 1);
      x[4] = kNan;
      x[7] = x[8];
      auto X = side.put(x), dY = side.put(random_vector<float>(n * s.outputs(), 2));
      auto Y = side.put(std::vector<float>(n * s.outputs())),
           index = side.put(std::vector<float>(n * s.outputs())),
           dX = side.put(std::vector<float>(n * s.inputs(), kNan));
      auto* const places = reinterpret_cast<std::uint8_t*>(index.data());
      for (std::uint8_t* at : {places, static_cast<std::uint8_t*>(nullptr)}) {
        image.pool(s, n, X.data(), Y.data(), at);
        side.take(Y);
        for (const Real beta : {Real(0), Real(1)}) {
          image.pool_gradient(s, n, X.data(), Y.data(), at, dY.data(), beta, dX.data());
          side.take(dX);
        }
      }
    });
  }
}

TYPED_TEST(CudaImages, WhatStandsBetweenProducts) {
  constexpr std::size_t n = 3, count = 333;
  compare<TypeParam>([&](auto& side) {
    using Real = typename std::decay_t<decltype(side)>::Real;
    auto& image = kernels<BasicImageKernels<Real>>(side.device);
    std::vector<float> x = random_vector<float>(count, 1);
    x[5] = kNan;
    auto X = side.put(x), dY = side.put(random_vector<float>(count, 2));
    auto Y = side.put(std::vector<float>(count)), mask = side.put(std::vector<float>(count));
    auto dX = side.put(std::vector<float>(count, kNan));
    auto* const kept = reinterpret_cast<std::uint8_t*>(mask.data());
    image.relu(count, X.data(), Y.data());
    side.take(Y);
    for (const Real beta : {Real(0), Real(1)}) {
      image.relu_gradient(count, Y.data(), dY.data(), beta, dX.data());
      side.take(dX);
    }
    // The same mask as the CPU's: those of (seed, a, b).
    for (const DropoutKey& key : {DropoutKey{3, 1, 2, 0.5}, DropoutKey{1ULL << 40, 7, 0, 0.25}}) {
      image.dropout(count, key, X.data(), Y.data(), kept);
      side.take(Y);
      for (const Real beta : {Real(0), Real(1)}) {
        image.dropout_gradient(count, key.p, kept, dY.data(), beta, dX.data());
        side.take(dX);
      }
    }
    image.add_rows(n, 20, {X.data(), 30}, Real(0), {Y.data(), 25});
    image.add_rows(n, 20, {dY.data(), 0}, Real(1), {Y.data(), 25});
    image.add_rows(0, 20, {dY.data(), 0}, Real(1), {Y.data(), 25});
    side.take(Y);
    for (const std::size_t channels : {std::size_t{2}, std::size_t{4}}) {
      auto maps = side.put(random_vector<float>(n * 3 * 7 * 5, 4)),
           thin = side.put(std::vector<float>(n * channels * 4 * 3));
      image.subsample(n, 3, 7, 5, channels, 2, maps.data(), thin.data());
      side.take(thin);
      for (const Real beta : {Real(1), Real(0)}) {
        image.subsample_gradient(n, 3, 7, 5, channels, 2, thin.data(), beta, maps.data());
        side.take(maps);
      }
    }
  });
}

TYPED_TEST(CudaImages, Normalisations) {
  constexpr std::size_t n = 3;
  for (const auto& [channels, pixels] : {std::pair{7, 12}, {1, 300}, {33, 1}}) {
    const auto C = static_cast<std::size_t>(channels), P = static_cast<std::size_t>(pixels);
    compare<TypeParam>([&](auto& side) {
      using Real = typename std::decay_t<decltype(side)>::Real;
      auto& law = kernels<BasicNormalisationKernels<Real>>(side.device);
      const std::size_t count = n * C * P;
      auto X = side.put(random_vector<float>(count, 1)), Y = side.put(std::vector<float>(count)),
           dY = side.put(random_vector<float>(count, 2)),
           dX = side.put(std::vector<float>(count, kNan));
      for (const std::size_t size : {std::size_t{5}, std::size_t{4}}) {
        const ResponseNormalisation<Real> around{size, Real(0.3), Real(0.75), Real(2)};
        law.response_normalisation(around, n, C, P, X.data(), Y.data());
        side.take(Y);
        for (const Real beta : {Real(0), Real(1)}) {
          law.response_normalisation_gradient(around, n, C, P, X.data(), Y.data(), dY.data(), beta,
                                              dX.data());
          side.take(dX);
        }
      }
      auto statistics = side.put(std::vector<float>(2 * C)),
           scale = side.put(random_vector<float>(C, 3)),
           shift = side.put(random_vector<float>(C, 4));
      law.channel_statistics(n, C, P, X.data(), statistics.data());
      side.take(statistics);
      law.normalise(n, C, P, X.data(), statistics.data(), Real(1e-5), scale.data(), shift.data(),
                    Y.data());
      side.take(Y);
      for (const Real beta : {Real(0), Real(1)}) {
        law.normalise_gradient(n, C, P, X.data(), statistics.data(), Real(1e-5), scale.data(),
                               dY.data(), beta, dX.data(), Real(-0.1), Real(1), scale.data(),
                               shift.data());
        side.take(dX);
        side.take(scale);
        side.take(shift);
      }
      law.normalise_gradient(n, C, P, X.data(), statistics.data(), Real(1e-5), scale.data(),
                             dY.data(), Real(0), nullptr, Real(1), Real(0), scale.data(),
                             shift.data());
      side.take(scale);
    });
  }
}

TYPED_TEST(CudaImages, GatesAndSteps) {
  constexpr std::size_t n = 4, units = 9;
  compare<TypeParam>([&](auto& side) {
    using Real = typename std::decay_t<decltype(side)>::Real;
    auto& sequences = kernels<BasicSequenceKernels<Real>>(side.device);
    auto X = side.put(random_vector<float>(n * 7 * 3, 1)),
         rows = side.put(std::vector<float>(n * 10));
    sequences.read_step({7, 3, 1}, n, X.data(), rows.data(), 10);
    side.take(rows);
    sequences.write_step({7, 3, 2}, n, rows.data(), 10, Real(1), X.data());
    sequences.write_step({7, 3, 0}, n, rows.data(), 10, Real(0), X.data());
    side.take(X);
    auto Z = side.put(random_vector<float>(n * 4 * units, 2)),
         kept = side.put(std::vector<float>(2 * n * 6 * units)),
         h = side.put(std::vector<float>(n * 12)),
         dh = side.put(random_vector<float>(n * units, 3)),
         dc = side.put(random_vector<float>(n * units, 4));
    Real* const second = kept.data() + n * 6 * units;
    sequences.gates(n, units, Z.data(), nullptr, kept.data(), h.data(), 12);
    sequences.gates(n, units, Z.data(), kept.data(), second, h.data(), 12);
    side.take(kept);
    side.take(h);
    sequences.gates_gradient(n, units, second, kept.data(), dh.data(), dc.data(), Z.data());
    side.take(Z);
    sequences.gates_gradient(n, units, kept.data(), nullptr, dh.data(), dc.data(), Z.data());
    side.take(Z);
    side.take(dc);
  });
}

// A copy sees what the kernels before it have written, and the kernels behind a wait what it has
// brought; more copies than marks.
TYPED_TEST(CudaImages, CopiesRunBesideKernelsAndAreWaitedFor) {
  using Real = TypeParam;
  constexpr std::size_t kNumbers = 1000, kCopies = 200;
  auto& device = gpu<Real>();
  auto& blocks = kernels<BasicHostBlocks<Real>>(device);
  const BasicHostBlock<Real> block(device, kNumbers);
  BasicBuffer<Real> x(device, kNumbers), y(device, kNumbers);
  for (std::size_t i = 1; i <= kCopies; ++i) {
    device.fill(kNumbers, static_cast<Real>(i), x.data());
    const std::uint64_t out = blocks.copy_out(kNumbers, x.data(), block.data());
    const std::uint64_t in = blocks.copy_in(kNumbers, block.data(), y.data());
    EXPECT_EQ(in, out + 1);
    if (i % 3 == 0) blocks.wait(out);  // of an earlier copy than the last
    blocks.wait(in);
    device.fill(kNumbers, Real(-1), x.data());
    std::vector<Real> host(kNumbers);
    device.download(host.data(), y.data(), kNumbers * sizeof(Real));
    EXPECT_EQ(host, std::vector<Real>(kNumbers, static_cast<Real>(i)));
  }
  EXPECT_EQ(block.data()[kNumbers - 1], static_cast<Real>(kCopies));
}

}  // namespace
}  // namespace hetsgd::test
