// Sequences of unequal lengths: how they travel, their padded form, generate:video, bucketed order.
#include "data/sequences.hpp"

#include "data/generate_video.hpp"
#include "data/sampler.hpp"
#include "data/select.hpp"
#include "data/summary.hpp"
#include "data/write.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

const std::string kSmallVideo =
    "generate:video?clips=300&clips_test=20&classes=4&size=3&median=12&shortest=2&longest=60";

DatasetPtr small_video() {
  return std::make_shared<const Dataset>(
      generate_video(parse_video_spec(kSmallVideo), DataPart::train, 2).data);
}

// Rows of 1, 3 and 2 frames of two numbers: 1 2 | 3 4, 5 6, 7 8 | 9 10, 11 12.
DatasetBuilder three_rows() {
  DatasetBuilder data = test::dataset_of(Task::multiclass, 2);
  data.sequences.numbers = 2;
  data.sequences.begin = {0, 1, 4, 6};
  for (int i = 1; i <= 12; ++i) data.sequences.value.push_back(static_cast<float>(i));
  data.targets.index = {0, 1, 1};
  data.targets.begin = {0, 1, 2, 3};
  return data;
}

TEST(SequenceData, KnowsLengthsAndPadsToAnyNumberOfSteps) {
  const Dataset data = three_rows().build();
  EXPECT_THAT(verify(data), IsEmpty());
  EXPECT_EQ(data.totals().frames, 6U);
  const Batch batch(data, {2, 0, 1});
  EXPECT_THAT(lengths_of(batch, 0, 3), ElementsAre(2, 1, 3));
  EXPECT_THAT(lengths_of(batch, 1, 1), ElementsAre(1));
  const BatchShape shape = batch.shape();
  EXPECT_EQ(shape.steps, 3);
  EXPECT_EQ(shape.frames, 6);
  std::vector<float> X(3 * 2 * 4, -1.0F);
  copy_sequences(batch, 0, 3, 4, X.data());
  EXPECT_THAT(X, ElementsAre(9, 11, 0, 0, 10, 12, 0, 0,  //
                             1, 0, 0, 0, 2, 0, 0, 0,     //
                             3, 5, 7, 0, 4, 6, 8, 0));
  EXPECT_THAT(longest_first(batch).rows(), ElementsAre(1, 2, 0));
  EXPECT_THAT(longest_first(Batch(data, {0, 0})).rows(), ElementsAre(0, 0));
}

TEST(SequenceData, BrokenOnesAreFound) {
  DatasetBuilder empty_row = three_rows();
  empty_row.sequences.begin = {0, 1, 1, 6};
  EXPECT_THAT(verify(std::move(empty_row).build()), ElementsAre("a row has no frame"));
  DatasetBuilder few_rows = three_rows();
  few_rows.sequences.begin = {0, 6};
  EXPECT_THAT(verify(std::move(few_rows).build()),
              ElementsAre("found 1 rows of frames and 3 rows of labels"));
  DatasetBuilder cut = three_rows();
  cut.sequences.value.pop_back();
  EXPECT_THAT(verify(std::move(cut).build()).front(), HasSubstr("expected a multiple of 2"));
}

TEST(SequenceData, PartsHaveTheirRows) {
  const DatasetPtr data = small_video();
  const std::vector<Index> rows{7, 3, 299};
  const DatasetPtr part = select_rows(*data, rows);
  EXPECT_THAT(verify(*part), IsEmpty());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(part->sequences.row(i), data->sequences.row(rows[i])));
  }
  EXPECT_EQ(shard_of(*data, rows)->totals().frames, data->sequences.frames());
  const LoadedPair pair = hold_out({data, {}}, {HeldOut::Which::tail, 0.25});
  ASSERT_EQ(pair.train.data->rows(), 225U);
  EXPECT_THAT(verify(*pair.train.data), IsEmpty());
  EXPECT_THAT(verify(*pair.test.data), IsEmpty());
  for (std::uint64_t row = 0; row < 75; ++row) {
    ASSERT_TRUE(
        std::ranges::equal(pair.test.data->sequences.row(row), data->sequences.row(225 + row)));
  }
}

TEST(SequenceData, NoFileHoldsThem) {
  const TemporaryFolder folder;
  const DatasetPtr data = small_video();
  EXPECT_THAT(error_of([&] { save_dataset(folder / "x.hsgd", *data, {}); }),
              HasSubstr("found sequences"));
  EXPECT_THAT(error_of([&] { write_xc(folder / "x.txt", *data); }, ExitCode::usage),
              HasSubstr("sequences cannot be written as XC text"));
}

TEST(GeneratedVideo, ASmallSetIsMeasuredOnAsManyClips) {
  EXPECT_EQ(parse_video_spec("generate:video").rows_test, 2000U);
  EXPECT_EQ(parse_video_spec("generate:video?clips=40").rows_test, 40U);
  EXPECT_EQ(parse_video_spec("generate:video?clips=40&clips_test=300").rows_test, 300U);
}

// 13,320 clips: mean 186, deviation 97.7, from 29 frames on, none above 1,776.
TEST(GeneratedVideo, HasTheLengthsOfUcf101) {
  const VideoOptions options = parse_video_spec("generate:video");
  ASSERT_EQ(options.rows_train, 13320U);
  const auto moments = [&](std::uint64_t clips) {
    double sum = 0, squares = 0;
    for (std::uint64_t row = 0; row < clips; ++row) {
      const std::uint64_t length = video_length(options, DataPart::train, row);
      EXPECT_GE(length, 29U);
      EXPECT_LE(length, 1776U);
      sum += static_cast<double>(length);
      squares += static_cast<double>(length * length);
    }
    const double mean = sum / static_cast<double>(clips);
    return std::pair(mean, std::sqrt(squares / static_cast<double>(clips) - mean * mean));
  };
  // A lognormal of sigma 0.494 has a kurtosis of 8, so that the deviation of n draws has a standard
  // error of sqrt(7 / 4n): 1.1 % of 13,320.
  for (const auto& [clips, error] :
       {std::pair(std::uint64_t{200'000}, 0.02), std::pair(options.rows_train, 0.04)}) {
    const auto [mean, deviation] = moments(clips);
    EXPECT_NEAR(mean, 186, 0.02 * 186) << clips;
    EXPECT_NEAR(deviation, 97.7, error * 97.7) << clips;
  }
  // Both ends of the law are cut.
  VideoOptions wide = options;
  wide.sigma = 3;
  std::set<std::uint64_t> lengths;
  for (std::uint64_t row = 0; row < 1000; ++row) {
    lengths.insert(video_length(wide, DataPart::test, row));
  }
  EXPECT_EQ(*lengths.begin(), 29U);
  EXPECT_EQ(*lengths.rbegin(), 1776U);
}

TEST(GeneratedVideo, IsTheSameForAnyNumberOfThreadsAndAClassIsAPath) {
  const VideoOptions options = parse_video_spec(kSmallVideo);
  const Dataset one = generate_video(options, DataPart::train, 1).data;
  const Dataset four = generate_video(options, DataPart::train, 4).data;
  EXPECT_TRUE(std::ranges::equal(one.sequences.value, four.sequences.value));
  EXPECT_THAT(verify(one), IsEmpty());
  EXPECT_EQ(one.rows(), 300U);
  for (std::uint64_t row = 0; row < one.rows(); ++row) {
    EXPECT_EQ(one.length(row), video_length(options, DataPart::train, row));
  }
  // Without noise, clips of one class begin and end alike, whatever their lengths.
  VideoOptions quiet = options;
  quiet.noise = 0;
  const Dataset clips = generate_video(quiet, DataPart::test).data;
  for (std::uint64_t a = 0; a < clips.rows(); ++a) {
    for (std::uint64_t b = 0; b < clips.rows(); ++b) {
      const auto x = clips.sequences.row(a), y = clips.sequences.row(b);
      const bool same = clips.labels(a)[0] == clips.labels(b)[0];
      EXPECT_EQ(std::ranges::equal(x.first(3), y.first(3)), same);
      EXPECT_EQ(std::ranges::equal(x.last(3), y.last(3)), same);
    }
  }
}

// The input that a batch of these rows reads, padded to 60 steps.
std::vector<float> read_rows(const Dataset& data, std::vector<Index> rows) {
  const Batch batch(data, std::move(rows));
  std::vector<float> X(batch.size() * data.sequences.numbers * 60);
  copy_sequences(batch, 0, batch.size(), 60, X.data());
  return X;
}

TEST(GeneratedVideo, FramesThatAreDrawnAreThoseThatAreStored) {
  const DatasetPtr stored = small_video();
  const auto drawn = std::make_shared<const Dataset>(
      generate_video(parse_video_spec(kSmallVideo + "&frames=drawn"), DataPart::train, 1).data);
  EXPECT_THAT(verify(*drawn), IsEmpty());
  EXPECT_TRUE(drawn->sequences.value.empty());
  EXPECT_EQ(drawn->content_hash, stored->content_hash);
  EXPECT_EQ(drawn->totals().frames, stored->totals().frames);
  EXPECT_TRUE(std::ranges::equal(drawn->targets.index, stored->targets.index));
  EXPECT_EQ(read_rows(*drawn, {0, 299, 7}), read_rows(*stored, {0, 299, 7}));
  const std::vector<Index> rows{7, 3, 299};
  EXPECT_EQ(read_rows(*select_rows(*drawn, rows), {2, 0, 1}), read_rows(*stored, {299, 7, 3}));
  const LoadedPair pair = hold_out({drawn, {}}, {HeldOut::Which::tail, 0.25});
  EXPECT_THAT(verify(*pair.train.data), IsEmpty());
  EXPECT_EQ(read_rows(*pair.train.data, {224}), read_rows(*stored, {224}));
  EXPECT_EQ(read_rows(*pair.test.data, {74}), read_rows(*stored, {299}));
}

// 20,000 clips of some 186 frames of 65,536 numbers: 975 GB.
TEST(GeneratedVideo, TooManyFramesForTheMachineAreAnErrorBeforeTheyAreMade) {
  const std::string large = "generate:video?clips=20000&classes=2&size=65536";
  EXPECT_THAT(error_of([&] { generate_video(parse_video_spec(large), DataPart::train, 1); }),
              AllOf(HasSubstr("the clips"), HasSubstr("frames=drawn")));
  const Dataset drawn =
      generate_video(parse_video_spec(large + "&frames=drawn"), DataPart::train, 1).data;
  EXPECT_EQ(drawn.rows(), 20000U);
}

TEST(GeneratedVideo, BadSpecificationsAreErrors) {
  const auto error = [](const std::string& settings) {
    return error_of([&] { parse_video_spec("generate:video?" + settings); }, ExitCode::usage);
  };
  EXPECT_THAT(error("clip=3"), HasSubstr("clip"));
  EXPECT_THAT(error("classes=1"), HasSubstr("classes"));
  EXPECT_THAT(error("frames=some"), HasSubstr("expected one of stored, drawn"));
  EXPECT_THAT(error_of([] { load_dataset("generate:vidoe?clips=3", {}); }, ExitCode::usage),
              AllOf(HasSubstr("found \"vidoe\", expected amazon670k"),
                    HasSubstr("did you mean \"video\"?")));
  EXPECT_THAT(error("shortest=9&longest=8"), HasSubstr("longest: found 8, expected at least 9"));
}

std::vector<Index> drawn_rows(const Sampler& sampler, std::uint64_t begin, std::uint64_t count) {
  Batch batch;
  sampler.fill(0, {begin, count}, batch);
  return {batch.rows().begin(), batch.rows().end()};
}

// Frames that batches are padded to, over what they have.
double padding_share(const Sampler& sampler, std::uint64_t batches, std::uint64_t size) {
  double padded = 0, real = 0;
  for (std::uint64_t i = 0; i < batches; ++i) {
    Batch batch;
    sampler.fill(0, {i * size, size}, batch);
    padded += batch.shape().steps * batch.shape().samples;
    real += batch.shape().frames;
  }
  return padded / real;
}

TEST(BucketedOrder, EveryEpochIsAPermutationOfBatchesOfLikeLength) {
  const DatasetPtr data = small_video();
  for (const std::uint64_t batch : {1U, 7U, 32U, 299U, 300U, 301U}) {
    const Sampler sampler(data, {.order = Order::bucketed, .batch = batch});
    std::set<std::vector<Index>> orders;
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      std::vector<Index> order = drawn_rows(sampler, epoch * 300, 300);
      orders.insert(order);
      std::ranges::sort(order);
      for (Index row = 0; row < 300; ++row) ASSERT_EQ(order[row], row);
    }
    EXPECT_EQ(orders.size(), 4U) << batch;
  }
  const Sampler shuffled(data, {.batch = 7});
  const Sampler bucketed(data, {.order = Order::bucketed, .batch = 7});
  // Over four epochs, at whose ends batches mix two of them.
  EXPECT_GT(padding_share(shuffled, 170, 7), 1.4);
  EXPECT_LT(padding_share(bucketed, 170, 7), 1.1);
}

TEST(BucketedOrder, ARangeMayBeCutAnywhere) {
  const DatasetPtr data = small_video();
  const Sampler sampler(data, {.order = Order::bucketed, .batch = 2});
  const std::vector<Index> whole = drawn_rows(sampler, 0, 900);
  std::vector<Index> pieces;
  for (std::uint64_t begin = 0; begin < 900; begin += 45) {
    const std::vector<Index> piece = drawn_rows(sampler, begin, 45);
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(whole, pieces);
}

// The first window: the 100 batches, sorted, have lengths that do not overlap; their order is not
// ascending.
TEST(BucketedOrder, SortsAWindowAndShufflesItsBatches) {
  const DatasetPtr data = small_video();
  const Sampler sampler(data, {.order = Order::bucketed, .batch = 2});
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extremes;
  for (std::uint64_t i = 0; i < kBucketWindow; ++i) {
    const std::vector<Index> rows = drawn_rows(sampler, 2 * i, 2);
    extremes.emplace_back(data->length(rows[0]), data->length(rows[1]));
  }
  EXPECT_FALSE(std::ranges::is_sorted(extremes));
  std::ranges::sort(extremes);
  for (std::size_t i = 1; i < extremes.size(); ++i) {
    EXPECT_LE(extremes[i - 1].second, extremes[i].first);
  }
}

TEST(BucketedOrder, AShardOfAProcessHasTheSameSamples) {
  const DatasetPtr data = small_video();
  const Sampler::Options options{
      .order = Order::bucketed, .batch = 8, .partition = Partition::iid, .workers = 3};
  const Sampler all(data, options);
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<Index> rows = all.shard(rank);
    const Sampler own(shard_of(*data, rows), options, rank);
    Batch of_all, of_own;
    all.fill(rank, {70, 64}, of_all);
    own.fill(rank, {70, 64}, of_own);
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(of_all.rows()[i], rows[of_own.rows()[i]]);
  }
}

}  // namespace
}  // namespace hetsgd
