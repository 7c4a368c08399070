// Gates of sequences on a GPU, and copies beside kernels.
#include "linalg/devices.hpp"
#include "linalg/host_blocks.hpp"
#include "linalg/sequence_kernels.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class CudaSequences : public ::testing::Test {};
TYPED_TEST_SUITE(CudaSequences, RealTypes);

TYPED_TEST(CudaSequences, GatesAndSteps) {
  constexpr std::size_t n = 4, units = 9;
  compare_with_core<TypeParam>([&](auto& side) {
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
TYPED_TEST(CudaSequences, CopiesRunBesideKernelsAndAreWaitedFor) {
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
