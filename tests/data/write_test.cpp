// Written data reads back as the same bits, in every format and for every task.
#include "data/write.hpp"

#include "data_test_util.hpp"

namespace hetsgd {
namespace {

class WriteTest : public testing::Test {
 protected:
  WriteTest() { options_.cache = CacheMode::off; }
  TemporaryFolder folder_;
  std::string path_ = folder_ / "data";
  LoadOptions options_;
};

TEST_F(WriteTest, XcRoundTrip) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Dataset data = random_dataset(Task::multilabel, seed);
    write_xc(path_, data);
    expect_same_data(data, *load_dataset(path_, options_).data);
  }
}

TEST_F(WriteTest, LibsvmAndBinaryRoundTrip) {
  for (const Task task : {Task::multilabel, Task::multiclass, Task::binary}) {
    for (const IndexBase base : {IndexBase::zero, IndexBase::one}) {
      options_.index_base = base;
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        const Dataset data = random_dataset(task, seed);
        write_libsvm(path_, data, {}, base);
        expect_same_data(data, *load_dataset(path_, options_).data);
        save_dataset(path_, data, {});
        expect_same_data(data, *load_dataset(path_, options_).data);
      }
    }
  }
}

TEST_F(WriteTest, KeepsTheLabelTexts) {
  const LoadedData pair = parse("-1 1:1\n1 2:0.25\n");
  write_libsvm(path_, *pair.data, pair.report);
  EXPECT_EQ(read_file(path_), "-1 1:1\n1 2:0.25\n");
  const LoadedData classes = parse("7 1:1\n-3 2:0.1\n 1:1\n");
  write_libsvm(path_, *classes.data, classes.report, IndexBase::zero);
  EXPECT_EQ(read_file(path_), "7 0:1\n-3 1:0.1\n 0:1\n");
}

TEST_F(WriteTest, XcShowsBinaryDataAsTwoLabels) {
  write_xc(path_, *parse("-1 1:1\n1 2:0.25\n").data);
  EXPECT_EQ(read_file(path_), "2 2 2\n0 0:1\n1 1:0.25\n");
}

TEST_F(WriteTest, ARowOfNothingStaysARow) {
  DatasetBuilder builder = random_builder(Task::multilabel, 1, 3);
  test::end_row(builder);
  const Dataset data = std::move(builder).build();
  write_xc(path_, data);
  expect_same_data(data, *load_dataset(path_, options_).data);
  write_libsvm(path_, data, {});
  expect_same_data(data, *load_dataset(path_, options_).data);
}

}  // namespace
}  // namespace hetsgd
