// A GPU as a device: its memory, transfers and batches, and several devices on one GPU.
#include <gmock/gmock.h>

#include "linalg/devices.hpp"
#include "linalg/embedding_kernels.hpp"
#include "linalg/field_rows.hpp"
#include "linalg/host_view.hpp"
#include "linalg/streams.hpp"
#include "support/failure.hpp"

namespace hetsgd::test {
namespace {

template <class Real>
class CudaDevice : public ::testing::Test {};
TYPED_TEST_SUITE(CudaDevice, RealTypes);

TYPED_TEST(CudaDevice, NamesItselfAndRefusesWhatIsNotThere) {
  EXPECT_EQ(gpu<TypeParam>().name().rfind("cuda:0 (", 0), 0U);
  EXPECT_EQ(gpu<TypeParam>().name(), cuda_device_name(0));
  const int none = static_cast<int>(cuda_platform().gpus.size());
  const Failure failure = failure_of([&] { make_cuda_device<TypeParam>(none); });
  EXPECT_EQ(failure.code, ExitCode::device);
  EXPECT_NE(failure.hint.find("cuda:0 ("), std::string::npos) << failure.hint;
}

TYPED_TEST(CudaDevice, StagedBatchesOutliveTheHostsArraysAndOneMoreBatch) {
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
  sparse_kernels(device).forward(staged, 50, W.data(), nullptr, false, Y.data());
  side.take(Y);
  EXPECT_EQ(side.results[0], dense);
  device.stage(other.template view<TypeParam>(true));
  EXPECT_THROW(sparse_kernels(device).forward(staged, 50, W.data(), nullptr, false, Y.data()),
               CheckFailure);
  EXPECT_THROW(sparse_kernels(device).forward(other.template view<TypeParam>(true), 50, W.data(),
                                              nullptr, false, Y.data()),
               CheckFailure);
}

TYPED_TEST(CudaDevice, StagedFieldsOutliveTheHostsArraysAndOneMoreBatch) {
  auto& device = gpu<TypeParam>();
  auto& rows = kernels<BasicEmbeddingKernels<TypeParam>>(device);
  RandomFields first({20, 3, 4, 5, 1, 9}, 1);
  const RandomFields same = first, other({30, 2, 5, 5, 1, 9}, 2);
  const TableShape table{5, 1};
  const std::size_t numbers = 20 * (3 + 4 * 5);
  Side<TypeParam> side{device};
  auto W = side.put(random_vector<float>(first.categories() * 6, 2));
  auto Y = side.put(std::vector<float>(numbers)), z = side.put(std::vector<float>(20));
  rows.gather_rows(device.stage(same.template view<TypeParam>()), table, W.data(), Y.data(),
                   z.data());
  side.take(Y);
  const auto staged = device.stage(first.template view<TypeParam>());
  std::fill(first.category.begin(), first.category.end(), 0U);
  std::fill(first.dense.begin(), first.dense.end(), kNan);
  device.stage(other.template view<TypeParam>());
  rows.gather_rows(staged, table, W.data(), Y.data(), z.data());
  side.take(Y);
  EXPECT_EQ(side.results[0], side.results[1]);
  device.stage(other.template view<TypeParam>());
  EXPECT_THROW(rows.gather_rows(staged, table, W.data(), Y.data(), z.data()), CheckFailure);
  EXPECT_THROW(
      rows.gather_rows(other.template view<TypeParam>(), table, W.data(), Y.data(), z.data()),
      CheckFailure);
}

TEST(CudaHostView, ReadsACopyAndBringsBackWhatTheHostWrote) {
  Side<float> side{gpu<float>()};
  Device& device = side.device;
  auto x = side.put(std::vector<float>{1, 2, 3});
  HostScratch scratch;
  const HostView read(&device, x.span(), scratch);
  EXPECT_TRUE(read.copied());
  EXPECT_THAT(read.floats(), ::testing::ElementsAre(1, 2, 3));
  static Seconds copying;
  copying = Seconds(0);
  const HostView update(&device, HostView::Use::update, x.data(), 12, scratch,
                        [](Seconds took) { copying += took; });
  EXPECT_GT(copying.count(), 0);
  for (float& number : update.floats()) number += 4;
  update.store(4, 12);
  const HostView write(&device, HostView::Use::write, x.data(), 4, scratch);
  write.floats()[0] = 9;
  write.store();
  side.take(x);
  EXPECT_EQ(side.results[0], (std::vector<double>{9, 6, 7}));

  std::vector<float> host{1, 2};
  EXPECT_EQ(HostView(&device, host, scratch).floats().data(), host.data());
  EXPECT_EQ(HostView(nullptr, host, scratch).floats().data(), host.data());
}

TYPED_TEST(CudaDevice, DevicesOfOneGpuWorkSideBySide) {
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

// Nothing waits for the host: what the device was given before comes first, the streams go side by
// side, and what it is given afterwards comes last.
TYPED_TEST(CudaDevice, StreamsAreOrderedBeforeAndAfter) {
  using Real = TypeParam;
  constexpr std::size_t kTasks = 3, kSize = 50'000;
  auto& device = gpu<Real>();
  const auto streams = device.streams(kTasks);
  ASSERT_EQ(streams->count(), kTasks);
  Side<Real> side{device};
  std::vector<BasicBuffer<Real>> x;
  for (std::size_t j = 0; j < kTasks; ++j) x.push_back(side.put(std::vector<float>(kSize)));
  auto total = side.put(std::vector<float>(kSize));
  std::vector<double> squares(kTasks);
  for (int round = 1; round <= 3; ++round) {
    const auto a = static_cast<Real>(round);
    for (auto& each : x) device.fill(kSize, a, each.data());
    streams->run(
        kTasks,
        [&](std::size_t j) {
          auto& own = streams->device(j);
          for (int i = 0; i < 3; ++i) own.axpby(kSize, Real(1), x[j].data(), Real(1), x[j].data());
        },
        [&](std::size_t j) {
          squares[j] = streams->device(j).squared_norm(kSize, x[j].data()) / kSize;
        });
    device.fill(kSize, Real(0), total.data());
    for (auto& each : x) device.axpby(kSize, Real(1), each.data(), Real(1), total.data());
    EXPECT_EQ(squares, std::vector<double>(kTasks, 64.0 * round * round));  // doubled three times
    side.take(total);
    EXPECT_EQ(side.results.back(), std::vector<double>(kSize, 8.0 * kTasks * round));
  }
  // An error leaves them in order, too.
  const auto fails = [&](std::size_t j) {
    if (j == 1) throw usage_error("of task {}", j);
    streams->device(j).fill(kSize, Real(7), x[j].data());
  };
  EXPECT_THROW(streams->run(kTasks, fails, [](std::size_t) {}), Error);
  side.take(x[0]);
  EXPECT_EQ(side.results.back(), std::vector<double>(kSize, 7.0));
}

}  // namespace
}  // namespace hetsgd::test
