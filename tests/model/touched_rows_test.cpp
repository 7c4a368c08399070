#include "model/touched_rows.hpp"

#include "core/random.hpp"

namespace hetsgd {
namespace {

TEST(TouchedRows, AreTheDistinctFeaturesInOrderBatchAfterBatch) {
  for (const Index features : {1U, 63U, 64U, 65U, 4096U, 4097U, 1'000'003U}) {
    DatasetBuilder builder;
    builder.feature_count = features;
    RandomStream random(features, Purpose::test);
    for (int r = 0; r < 40; ++r) {
      std::set<Index> row;
      for (std::size_t k = 0; k < random.below(30); ++k)
        row.insert(static_cast<Index>(random.below(features)));
      if (r % 6 == 0) row.insert({0, features - 1});  // the ends of the bitmap
      builder.sparse.index.insert(builder.sparse.index.end(), row.begin(), row.end());
      builder.sparse.begin.push_back(builder.sparse.index.size());
    }
    const Dataset data = std::move(builder).build();
    TouchedRows touched(features);
    std::vector<Index> rows{42};
    for (Index begin = 0; begin < 40; begin += 8) {
      Batch batch;
      std::set<Index> expected;
      auto& numbers = batch.reset(data);
      for (Index r = begin; r < begin + 8; ++r) {
        numbers.push_back(r);
        expected.insert(data.features(r).begin(), data.features(r).end());
      }
      touched.collect(batch, rows);
      EXPECT_TRUE(std::equal(rows.begin(), rows.end(), expected.begin(), expected.end()));
    }
    touched.collect(Batch(data, {}), rows);
    EXPECT_TRUE(rows.empty());
  }
}

}  // namespace
}  // namespace hetsgd
