#include "data/sampler.hpp"

#include "data/generate.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

DatasetPtr rows(std::uint64_t count) {
  return std::make_shared<const Dataset>(random_dataset(Task::multilabel, 9, count));
}

std::vector<Index> draw(const Sampler& sampler, int rank, std::uint64_t begin,
                        std::uint64_t count) {
  Batch batch;
  sampler.fill(rank, {begin, count}, batch);
  EXPECT_EQ(&batch.data(), &sampler.data());
  return {batch.rows().begin(), batch.rows().end()};
}

std::vector<Index> sorted(std::vector<Index> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<Index> all_rows(std::uint64_t count) {
  std::vector<Index> values(count);
  std::iota(values.begin(), values.end(), Index{0});
  return values;
}

TEST(Sampler, EveryEpochOfThePoolIsAPermutationOfItsOwn) {
  for (const std::uint64_t count : {1U, 2U, 63U, 64U, 65U, 1000U}) {
    const Sampler sampler(rows(count), {});
    std::set<std::vector<Index>> orders;
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
      const std::vector<Index> order = draw(sampler, 0, epoch * count, count);
      EXPECT_EQ(sorted(order), all_rows(count));
      orders.insert(order);
    }
    if (count > 60) {
      EXPECT_EQ(orders.size(), 5U);
    }
  }
}

// Workers 1 and 3 of five are lost: each of the others has its own rows, and all have each orphan
// exactly once. Every epoch of a worker is a permutation of its rows.
TEST(Sampler, OrphansAreDealtToTheLive) {
  for (const Partition partition :
       {Partition::iid, Partition::label_sorted, Partition::dirichlet}) {
    const Sampler sampler(rows(97), {.partition = partition, .workers = 5});
    const std::vector<int> view = {0, 2, 4};
    std::vector<Index> all;
    for (std::size_t rank = 0; rank < view.size(); ++rank) {
      const int worker = view[rank];
      const Sampler::Adopted adopted = sampler.adopted_by(rank, view);
      EXPECT_EQ(adopted.shards, (std::vector{1, 3}));
      const std::uint64_t orphans = sampler.shard_size(1) + sampler.shard_size(3);
      const std::uint64_t size = sampler.shard_size(worker) + (orphans - rank + 2) / 3;
      const auto epoch = [&](std::uint64_t number) {
        Batch batch;
        sampler.fill(worker, adopted, {number * size, size}, batch);
        return sorted({batch.rows().begin(), batch.rows().end()});
      };
      EXPECT_EQ(epoch(0), epoch(3));
      EXPECT_TRUE(std::ranges::includes(epoch(0), sorted(sampler.shard(worker))));
      const std::vector<Index> mine = epoch(0);
      all.insert(all.end(), mine.begin(), mine.end());
    }
    EXPECT_EQ(sorted(all), all_rows(97));
  }
}

TEST(Sampler, ARangeMayCrossEpochsAndBeCutAnywhere) {
  const Sampler sampler(rows(97), {});
  const std::vector<Index> whole = draw(sampler, 0, 0, 400);
  std::vector<Index> pieces;
  for (std::uint64_t begin = 0; begin < 400; begin += 33) {
    const std::vector<Index> piece =
        draw(sampler, 0, begin, std::min<std::uint64_t>(33, 400 - begin));
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(whole, pieces);
  EXPECT_TRUE(draw(sampler, 0, 50, 0).empty());
}

TEST(Sampler, SequentialOrderIsTheFilesOrder) {
  const Sampler sampler(rows(10), {.order = Order::sequential});
  EXPECT_THAT(draw(sampler, 0, 7, 6), testing::ElementsAre(7, 8, 9, 0, 1, 2));
}

TEST(Sampler, ShardsPartitionTheData) {
  for (const Partition partition :
       {Partition::iid, Partition::label_sorted, Partition::dirichlet}) {
    for (const int workers : {1, 2, 3, 7, 64}) {
      const Sampler sampler(rows(200), {.partition = partition, .workers = workers});
      std::vector<Index> seen;
      for (int rank = 0; rank < workers; ++rank) {
        const std::uint64_t size = sampler.shard_size(rank);
        EXPECT_LE(200U / static_cast<unsigned>(workers), size);
        EXPECT_LE(size, 200U / static_cast<unsigned>(workers) + 1);
        const std::vector<Index> first = draw(sampler, rank, 0, size);
        const std::vector<Index> second = draw(sampler, rank, size, size);
        EXPECT_EQ(sorted(first), sorted(second));  // every epoch stays in the shard
        if (size > 20) {
          EXPECT_NE(first, second);
        }
        seen.insert(seen.end(), first.begin(), first.end());
      }
      EXPECT_EQ(sorted(seen), all_rows(200));
    }
  }
}

TEST(Sampler, LabelSortedShardsAreSlicesByFirstLabel) {
  const DatasetPtr data = rows(203);
  const auto key = [&](Index row) {
    const auto labels = data->labels(row);
    return std::pair(labels.empty() ? -1 : static_cast<int>(labels[0]), row);
  };
  const Sampler sampler(
      data, {.order = Order::sequential, .partition = Partition::label_sorted, .workers = 4});
  std::vector<Index> order;
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<Index> shard = draw(sampler, rank, 0, sampler.shard_size(rank));
    order.insert(order.end(), shard.begin(), shard.end());
  }
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end(),
                             [&](Index a, Index b) { return key(a) < key(b); }));
}

TEST(Sampler, IsAFunctionOfTheSeed) {
  for (const Partition partition :
       {Partition::shared, Partition::iid, Partition::label_sorted, Partition::dirichlet}) {
    const Sampler a(rows(100), {.partition = partition, .seed = 5, .workers = 2});
    const Sampler b(rows(100), {.partition = partition, .seed = 5, .workers = 2});
    const Sampler c(rows(100), {.partition = partition, .seed = 6, .workers = 2});
    EXPECT_EQ(draw(a, 1, 30, 50), draw(b, 1, 30, 50));
    EXPECT_NE(draw(a, 1, 30, 50), draw(c, 1, 30, 50));
  }
}

TEST(Sampler, ThePoolIsTheSameForAllRanks) {
  const Sampler sampler(rows(100), {.workers = 3});
  EXPECT_EQ(draw(sampler, 0, 10, 50), draw(sampler, 2, 10, 50));
  EXPECT_EQ(sampler.shard_size(2), 100U);
}

TEST(Sampler, RefusesShardsWithoutRows) {
  EXPECT_EQ(
      error_of([] { Sampler(rows(3), {.partition = Partition::iid, .workers = 4}); },
               ExitCode::usage),
      "--partition: found 3 rows for 4 workers, expected at least one row per worker | use fewer "
      "workers, or --partition shared");
  EXPECT_THROW(Sampler(rows(3), {.partition = Partition::dirichlet, .workers = 4}), Error);
  EXPECT_NO_THROW(Sampler(rows(3), {.workers = 4}));
}

TEST(Sampler, ChecksTheRank) {
  const Sampler sampler(rows(10), {.workers = 2});
  Batch batch;
  EXPECT_THROW(sampler.fill(2, {0, 1}, batch), CheckFailure);
  EXPECT_THROW(sampler.fill(-1, {0, 1}, batch), CheckFailure);
}

TEST(Batch, CountsItsWork) {
  const auto data = parse("2 9 4\n0,3 0:1 4:2\n 8:3\n").data;
  const Batch batch(*data, {1, 0, 1});
  EXPECT_EQ(batch.shape().samples, 3);
  EXPECT_EQ(batch.shape().nonzeros, 4);
  EXPECT_EQ(batch.shape().labels, 2);
  EXPECT_EQ(Batch().shape().samples, 0);
}

}  // namespace
}  // namespace hetsgd
