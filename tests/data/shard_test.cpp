// A process that loads only its worker's shard: the same batches, less memory, the same care.
#include <fmt/ranges.h>

#include "data/binary_format.hpp"
#include "data/sampler.hpp"
#include "data/select.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

constexpr int kShardWorkers = 3;

RowChoice shard_choice(const Sampler::Options& sampling, int rank) {
  return {.rows =
              [sampling, rank](const Dataset& outline) {
                return Sampler(std::make_shared<const Dataset>(outline), sampling).shard(rank);
              },
          .needs_labels = sampling.partition != Partition::iid};
}

// The samples of a batch, copied: what a worker learns from.
Dataset samples_of(const Sampler& sampler, int rank, SampleRange range) {
  Batch batch;
  sampler.fill(rank, range, batch);
  return *select_rows(batch.data(), batch.rows());
}

class ShardTest : public testing::TestWithParam<Partition> {
 protected:
  ShardTest() {
    options_.cache_directory = folder_ / "cache";
    options_.threads = 1;
    const Dataset data = random_dataset(Task::multilabel, 5, 301);
    std::string text = fmt::format("{} {} {}\n", data.rows(), data.feature_count, data.label_count);
    for (std::uint64_t row = 0; row < data.rows(); ++row) {
      text += fmt::format("{}", fmt::join(data.labels(row), ","));
      for (std::size_t i = 0; i < data.features(row).size(); ++i) {
        text += fmt::format(" {}:{}", data.features(row)[i], data.values(row)[i]);
      }
      text += data.features(row).empty() ? " \n" : "\n";
    }
    write_file(text_, text);
    whole_ = load_dataset(text_, without_cache());
    write_file(binary_, binary_form(*whole_.data, whole_.report));
  }

  LoadOptions without_cache() const {
    LoadOptions options = options_;
    options.cache = CacheMode::off;
    return options;
  }
  Sampler::Options sampling(Partition partition) const {
    return {.partition = partition, .seed = 7, .workers = kShardWorkers, .alpha = 0.3};
  }
  LoadedData shard(const std::string& path, LoadOptions options, Partition partition, int rank) {
    options.train_rows = shard_choice(sampling(partition), rank);
    return load_dataset(path, options);
  }

  TemporaryFolder folder_;
  LoadOptions options_;
  std::string text_ = folder_ / "source.txt", binary_ = folder_ / "source.hsgd";
  LoadedData whole_;
};

TEST_P(ShardTest, EveryWorkerMeetsTheSameSamples) {
  const Sampler all(whole_.data, sampling(GetParam()));
  load_dataset(text_, options_);  // fills the cache
  std::uint64_t nonzeros = 0, rows = 0;
  for (int rank = 0; rank < kShardWorkers; ++rank) {
    const LoadedData parsed = shard(text_, without_cache(), GetParam(), rank);
    const LoadedData cached = shard(text_, options_, GetParam(), rank);
    const LoadedData converted = shard(binary_, options_, GetParam(), rank);
    EXPECT_TRUE(cached.report.from_cache);
    for (const LoadedData* each : {&parsed, &cached, &converted}) {
      const Sampler own(each->data, sampling(GetParam()), rank);
      EXPECT_EQ(own.shard_size(rank), all.shard_size(rank));
      for (const SampleRange range : {SampleRange{0, 40}, {90, 30}, {1234, 250}}) {
        expect_same_data(samples_of(all, rank, range), samples_of(own, rank, range));
      }
    }
    nonzeros += cached.data->nonzeros();
    rows += cached.data->rows();
  }
  EXPECT_EQ(nonzeros, whole_.data->nonzeros());
  EXPECT_EQ(rows, whole_.data->rows());
}

TEST_P(ShardTest, TellsOfTheWhole) {
  for (const std::string& path : {text_, binary_}) {
    const LoadedData part = shard(path, options_, GetParam(), 1);
    EXPECT_EQ(part.data->totals().rows, whole_.data->rows());
    EXPECT_EQ(part.data->totals().nonzeros, whole_.data->nonzeros());
    EXPECT_EQ(part.data->totals().labels, whole_.data->targets.index.size());
    EXPECT_EQ(part.data->content_hash, whole_.data->content_hash);
    EXPECT_EQ(part.data->feature_count, whole_.data->feature_count);
    EXPECT_EQ(part.report.rows_without_labels, whole_.report.rows_without_labels);
    EXPECT_EQ(part.report.rows_without_features, whole_.report.rows_without_features);
  }
}

INSTANTIATE_TEST_SUITE_P(Partitions, ShardTest,
                         testing::Values(Partition::iid, Partition::label_sorted,
                                         Partition::dirichlet));

TEST_F(ShardTest, DamageIsFoundByWhoReadsIt) {
  const std::string good = read_file(binary_);
  const Sampler all(whole_.data, sampling(Partition::iid));
  // The last value of the file belongs to the last row that has features.
  std::uint64_t row = whole_.data->rows() - 1;
  while (whole_.data->features(row).empty()) --row;
  const std::size_t last = good.size() - 1 - padding(4 * whole_.data->nonzeros());
  write_file(binary_, damaged(good, last));
  int failed = 0;
  for (int rank = 0; rank < kShardWorkers; ++rank) {
    const std::vector<Index> rows = all.shard(rank);
    if (std::find(rows.begin(), rows.end(), row) == rows.end()) {
      shard(binary_, options_, Partition::iid, rank);
      continue;
    }
    ++failed;
    EXPECT_THAT(error_of([&] { shard(binary_, options_, Partition::iid, rank); }),
                HasSubstr(fmt::format("the checksum of row {} is wrong", row + 1)));
  }
  EXPECT_EQ(failed, 1);
}

TEST_F(ShardTest, ADamagedCacheIsRebuilt) {
  load_dataset(text_, options_);
  const auto file = std::filesystem::directory_iterator(options_.cache_directory)->path();
  write_file(file, damaged(read_file(file), 200));  // in the head
  const LoadedData rebuilt = shard(text_, options_, Partition::iid, 0);
  EXPECT_THAT(rebuilt.report.cache_note, StartsWith("damaged cache rebuilt"));
  EXPECT_TRUE(shard(text_, options_, Partition::iid, 0).report.from_cache);
}

TEST_F(ShardTest, TooManyWorkersAreAUsageErrorAndTheCacheStays) {
  load_dataset(text_, options_);
  LoadOptions options = options_;
  options.train_rows = shard_choice({.partition = Partition::iid, .workers = 302}, 0);
  EXPECT_THAT(error_of([&] { load_dataset(text_, options); }, ExitCode::usage),
              HasSubstr("found 301 rows for 302 workers"));
  EXPECT_EQ(load_dataset(text_, options_).report.cache_note, "");
}

TEST_F(ShardTest, OneBuildsTheCacheAndTheOthersWait) {
  constexpr int kProcesses = 8;
  std::vector<LoadedData> loaded(kProcesses);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kProcesses; ++i) {
      threads.emplace_back([&, i] {
        loaded[static_cast<std::size_t>(i)] =
            shard(text_, options_, Partition::iid, i % kShardWorkers);
      });
    }
  }
  const auto built = std::count_if(loaded.begin(), loaded.end(),
                                   [](const LoadedData& each) { return !each.report.from_cache; });
  EXPECT_EQ(built, 1);
  for (const auto& entry : std::filesystem::directory_iterator(options_.cache_directory)) {
    EXPECT_EQ(entry.path().extension(), ".hsgd") << "left over: " << entry.path();
  }
}

}  // namespace
}  // namespace hetsgd
