// Rows of tokens: how they travel, what verify() finds, the shift of --augment.
#include "data/labels.hpp"
#include "data/select.hpp"
#include "data/sequences.hpp"
#include "data/summary.hpp"
#include "data/write.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

// The text 0 1 2 3 4 0 1 2 3 4 0 1 as rows of 2, 3 and 1 inputs, each of which may move by one.
DatasetBuilder three_stretches() {
  DatasetBuilder data = test::dataset_of(Task::tokens, 5);
  data.tokens = {.vocabulary = 5,
                 .room = 1,
                 .token = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1},
                 .begin = {0, 2, 9},
                 .length = {2, 3, 1},
                 .bytes = {2, 3, 1}};
  data.targets.begin.assign(4, 0);
  return data;
}

std::vector<int> tokens_at(const Batch& batch, std::size_t i) {
  const auto row = tokens_of(batch, i);
  return {row.begin(), row.end()};
}

TEST(TokenRows, HaveInputsAndTheTargetBehindThem) {
  const Dataset data = three_stretches().build();
  EXPECT_THAT(verify(data), IsEmpty());
  EXPECT_EQ(data.rows(), 3U);
  EXPECT_EQ(data.totals().frames, 6U);
  const Batch batch(data, {1, 0, 2});
  EXPECT_THAT(tokens_at(batch, 0), ElementsAre(2, 3, 4, 0));
  EXPECT_THAT(tokens_at(batch, 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(tokens_at(batch, 2), ElementsAre(4, 0));
  const BatchShape shape = batch.shape();
  EXPECT_EQ(shape.samples, 3);
  EXPECT_EQ(shape.steps, 3);
  EXPECT_EQ(shape.frames, 6);
  EXPECT_EQ(shape.labels, 0);
}

TEST(TokenRows, StayTheSameInAPartOfTheData) {
  const Dataset data = three_stretches().build();
  const DatasetPtr part = select_rows(data, std::vector<Index>{2, 0, 0});
  EXPECT_THAT(verify(*part), IsEmpty());
  EXPECT_EQ(part->task, Task::tokens);
  const Batch batch(*part, {0, 2});
  EXPECT_THAT(tokens_at(batch, 0), ElementsAre(4, 0));
  EXPECT_THAT(tokens_at(batch, 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(part->tokens.bytes, ElementsAre(1, 2, 2));
  const DatasetPtr shard = shard_of(data, std::vector<Index>{1});
  EXPECT_EQ(shard->totals().frames, 6U);
  EXPECT_THAT(tokens_at(Batch(*shard, {0}), 0), ElementsAre(2, 3, 4, 0));
}

// Every place of the room is as likely, and a place in the sequence of samples decides alone.
TEST(TokenRows, ShiftMovesARowWithinItsRoom) {
  DatasetBuilder builder = three_stretches();
  builder.tokens.room = 4;
  builder.tokens.begin = {0, 2, 4};
  const Dataset data = std::move(builder).build();
  EXPECT_THAT(verify(data), IsEmpty());
  const DatasetPtr shard = shard_of(data, std::vector<Index>{0});
  std::vector<int> seen(5);
  for (std::uint64_t place = 0; place < 1000; ++place) {
    Batch one, two;
    one.reset(data, {Augmentation::shift, 7, place}) = {0};
    two.reset(*shard, {Augmentation::shift, 7, place - 1}) = {0, 0};
    const std::vector<int> row = tokens_at(one, 0);
    EXPECT_THAT(row, ElementsAre(row[0], (row[0] + 1) % 5, (row[0] + 2) % 5));
    if (place > 0) {
      EXPECT_EQ(tokens_at(two, 1), row);
    }
    ++seen[static_cast<std::size_t>(row[0])];
  }
  for (const int count : seen) EXPECT_NEAR(count, 200, 4 * std::sqrt(1000 * 0.2 * 0.8));
}

// Near the end of the text rows move as far as it goes, also where parts and files hold them.
TEST(TokenRows, TheTextEndsTheRoom) {
  DatasetBuilder builder = three_stretches();
  builder.tokens.room = 9;
  const Dataset data = std::move(builder).build();
  EXPECT_THAT(verify(data), IsEmpty());
  const std::vector<Index> rows{2, 0, 1, 2};
  const DatasetPtr part = shard_of(data, rows);
  EXPECT_THAT(verify(*part), IsEmpty());
  const TemporaryFolder folder;
  save_dataset(folder / "data.hsgd", data, {.label_names = numbered_labels(5)});
  LoadOptions options;
  options.train_rows.rows = [&](const Dataset&) { return rows; };
  const LoadedData read = load_dataset(folder / "data.hsgd", options);
  expect_same_data(*read.data, *part);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(part->tokens.reach(i), data.tokens.reach(rows[i])));
  }
  std::set<std::vector<int>> seen;
  for (std::uint64_t place = 0; place < 100; ++place) {
    Batch one;
    one.reset(*part, {Augmentation::shift, 7, place}) = {0};
    seen.insert(tokens_at(one, 0));
  }
  EXPECT_THAT(seen, ElementsAre(std::vector{0, 1}, std::vector{4, 0}));
}

TEST(TokenRows, VerifyFindsWhatIsBroken) {
  const auto findings = [](void (*damage)(DatasetBuilder&)) {
    DatasetBuilder data = three_stretches();
    damage(data);
    return verify(std::move(data).build());
  };
  using Data = DatasetBuilder;
  EXPECT_THAT(findings([](Data& d) { d.tokens.token[3] = 5; }),
              ElementsAre("place 3: token 5 is out of range: there are 5 kinds"));
  EXPECT_THAT(findings([](Data& d) { d.tokens.length[1] = 0; }),
              ElementsAre("row 2: found 0 tokens at place 2, expected some within a text of 12"));
  EXPECT_THAT(findings([](Data& d) { d.tokens.length[2] = 3; }),
              ElementsAre("row 3: found 3 tokens at place 9, expected some within a text of 12"));
  EXPECT_THAT(findings([](Data& d) { d.tokens.begin[0] = ~std::uint64_t{0}; }),
              Contains(testing::HasSubstr("row 1: found 2 tokens at place 18446744073709551615")));
  EXPECT_THAT(findings([](Data& d) { d.tokens.bytes.pop_back(); }),
              ElementsAre("found 3 places, 3 lengths and 2 byte counts of 3 rows"));
  EXPECT_THAT(findings([](Data& d) { d.label_count = 4; }),
              ElementsAre("found 5 kinds of tokens, expected at most 4"));
  EXPECT_THAT(findings([](Data& d) { d.task = Task::multilabel; }),
              ElementsAre("found 5 kinds of tokens in multilabel data"));
}

}  // namespace
}  // namespace hetsgd
