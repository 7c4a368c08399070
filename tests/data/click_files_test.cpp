// Click data in the binary form, in the cache, in shards and split by time.

#include "data/binary_format.hpp"
#include "data/generate_ctr.hpp"
#include "data/sampler.hpp"
#include "data/select.hpp"
#include "data/summary.hpp"
#include "data/write.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

constexpr const char* kTinyClicks = "generate:ctr-tiny?scale=0.05";

RowChoice clicks_of_worker(int rank) {
  return {.rows = [rank](const Dataset& outline) {
    const Sampler::Options sampling{.partition = Partition::iid, .seed = 7, .workers = 3};
    return Sampler(std::make_shared<const Dataset>(outline), sampling).shard(rank);
  }};
}

class ClickFiles : public testing::Test {
 protected:
  ClickFiles() {
    const ClickGenerator generator(parse_click_spec("generate:criteo?scale=0.00002"));
    write_criteo(train_, generator, DataPart::train, 2);
    write_criteo(test_, generator, DataPart::test, 1);
    options_.cache_directory = folder_ / "cache";
    options_.vocabulary.min_frequency = 2;
  }

  TemporaryFolder folder_;
  std::string train_ = folder_ / "train.txt", test_ = folder_ / "test.txt",
              binary_ = folder_ / "train.hsgd";
  LoadOptions options_;
};

TEST_F(ClickFiles, TextIsThatOfTheGenerator) {
  const LoadedPair read = load_pair(train_, test_, options_);
  const char* const spec = "generate:criteo?scale=0.00002";
  const LoadedPair made = load_pair(spec, spec, options_);
  expect_same_data(*read.train.data, *made.train.data);
  expect_same_data(*read.test.data, *made.test.data);
}

TEST_F(ClickFiles, BinaryRoundTrip) {
  const LoadedData parsed = load_dataset(train_, options_);
  save_dataset(binary_, *parsed.data, parsed.report);
  const LoadedData loaded = load_dataset(binary_, {});
  expect_same_data(*loaded.data, *parsed.data);
  EXPECT_EQ(loaded.report.distinct_values, parsed.report.distinct_values);
  EXPECT_EQ(loaded.data->sparse.rows(), 0U);
  EXPECT_THAT(verify(*loaded.data), IsEmpty());
  // Hashed: there is no vocabulary.
  LoadOptions hashed = options_;
  hashed.vocabulary.hash_size = 50;
  const LoadedData hashes = load_dataset(train_, hashed);
  save_dataset(binary_, *hashes.data, hashes.report);
  expect_same_data(*load_dataset(binary_, {}).data, *hashes.data);
}

TEST_F(ClickFiles, TheCacheKnowsTheVocabulary) {
  const LoadedPair fresh = load_pair(train_, test_, options_);
  const LoadedPair again = load_pair(train_, test_, options_);
  EXPECT_TRUE(again.train.report.from_cache);
  EXPECT_TRUE(again.test.report.from_cache);
  expect_same_data(*again.train.data, *fresh.train.data);
  expect_same_data(*again.test.data, *fresh.test.data);
  EXPECT_EQ(again.train.report.distinct_values, fresh.train.report.distinct_values);
  LoadOptions other = options_;
  other.vocabulary.min_frequency = 3;
  EXPECT_FALSE(load_dataset(train_, other).report.from_cache);
  other = options_;
  other.vocabulary.hash_size = 9;
  EXPECT_FALSE(load_dataset(train_, other).report.from_cache);
  other = options_;
  other.held_out = {HeldOut::Which::tail, 0.5};
  EXPECT_FALSE(load_dataset(train_, other).report.from_cache);
  // The same test text for other training data.
  EXPECT_FALSE(load_pair(test_, test_, options_).test.report.from_cache);
}

TEST_F(ClickFiles, AShardHasTheRowsOfItsWorker) {
  const LoadedData whole = load_dataset(train_, options_);
  save_dataset(binary_, *whole.data, whole.report);
  std::uint64_t rows = 0;
  for (int rank = 0; rank < 3; ++rank) {
    LoadOptions options = options_;
    options.train_rows = clicks_of_worker(rank);
    const std::vector<Index> expected = options.train_rows.rows(*whole.data);
    for (const std::string& path : {binary_, train_}) {
      const LoadedData part = load_dataset(path, options);
      expect_same_data(*part.data, *shard_of(*whole.data, expected));
      EXPECT_EQ(part.data->totals().rows, whole.data->rows());
      EXPECT_EQ(part.report.from_cache, path == train_);
    }
    rows += expected.size();
  }
  EXPECT_EQ(rows, whole.data->rows());
}

TEST_F(ClickFiles, EveryDamagedByteIsFound) {
  const LoadedData small = load_dataset(kTinyClicks, {});
  save_dataset(binary_, *small.data, small.report);
  const std::string good = read_file(binary_);
  for (std::size_t at = 0; at < good.size(); at += 61) {
    const std::string bad = damaged(good, at);
    EXPECT_THROW(decode_binary(MemorySource(bad), "file"), Error) << at;
    try {  // padding alone may differ unseen
      expect_same_data(decode_binary_rows(MemorySource(bad), "file", every_row()).parsed.data,
                       *small.data);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
    }
  }
  for (std::size_t size = 0; size < good.size(); size += 997) {
    EXPECT_THROW(decode_binary(MemorySource(good.substr(0, size)), "file"), Error);
  }
}

// The file of sparse data has not one byte more than before click data were known.
TEST_F(ClickFiles, SparseFilesAreWhatTheyWere) {
  const std::string sample = HETSGD_FIXTURES "/../../../datasets/samples/";
  const LoadedData loaded = load_dataset(sample + "tiny_train.hsgd", {});
  const std::string bytes = binary_form(*loaded.data, loaded.report);
  const std::string file = read_file(sample + "tiny_train.hsgd");
  EXPECT_EQ(bytes.size(), file.size());
  const auto payload = [](const std::string& whole) {
    const BinaryFile places = read_header(MemorySource(whole), "file");
    return whole.substr(places.places.feature_begin);
  };
  EXPECT_EQ(payload(bytes), payload(file));
}

// Views are the rows that copies would be, of click data and of sparse data.
TEST_F(ClickFiles, ATailIsTheEndOfTheFileAndNotCopied) {
  const HeldOut held_out{HeldOut::Which::tail, 1.0 / 7};
  for (const LoadedData& all :
       {load_dataset(train_, options_), load_dataset("generate:tiny", {})}) {
    const LoadedPair split = hold_out(all, held_out);
    const RowSplit rows = split_rows(all.data->rows(), held_out);
    EXPECT_EQ(rows.held_out.size(),
              static_cast<std::size_t>(std::llround(static_cast<double>(all.data->rows()) / 7)));
    EXPECT_EQ(rows.held_out.front(), rows.kept.size());
    EXPECT_EQ(rows.held_out.back(), all.data->rows() - 1);
    const DatasetPtr kept = select_rows(*all.data, rows.kept);
    const DatasetPtr measured = select_rows(*all.data, rows.held_out);
    expect_same_data(*split.train.data, *kept);
    expect_same_data(*split.test.data, *measured);
    EXPECT_EQ(split.train.data->content_hash, kept->content_hash);
    EXPECT_EQ(split.test.data->content_hash, measured->content_hash);
    EXPECT_EQ(split.train.data->dense.value.data(), all.data->dense.value.data());
    EXPECT_EQ(split.train.data->sparse.index.data(), all.data->sparse.index.data());
    EXPECT_THAT(verify(*split.test.data), IsEmpty());
  }
}

// Values that only the held-out rows have are unknown.
TEST_F(ClickFiles, TheVocabularyKnowsNothingOfTheTail) {
  LoadOptions options;
  options.vocabulary.min_frequency = 1;
  options.held_out = {HeldOut::Which::tail, 0.5};
  const std::string tabs(25, '\t'), line = "0" + std::string(14, '\t');
  write_file(folder_ / "four", line + "aaaaaaaa" + tabs + "\n" + line + "bbbbbbbb" + tabs + "\n" +
                                   line + "cccccccc" + tabs + "\n" + line + "bbbbbbbb" + tabs +
                                   "\n");
  const LoadedData all = load_dataset(folder_ / "four", options);
  EXPECT_EQ(all.data->fields.first[1], 4U);
  EXPECT_EQ(all.data->fields.row(2)[0], 1U);  // rare or unknown
  EXPECT_EQ(all.data->fields.row(3)[0], 3U);
}

TEST(TailShare, ReadsFractions) {
  EXPECT_EQ(tail_share("tail:1/7"), 1.0 / 7);
  EXPECT_EQ(tail_share("tail:0.25"), 0.25);
  EXPECT_EQ(tail_share("test.txt"), std::nullopt);
  for (const char* bad : {"tail:", "tail:1", "tail:7/1", "tail:0", "tail:1/0", "tail:x/7",
                          "tail:1/7/2", "tail:-1/7", "tail:nan"}) {
    EXPECT_THAT(error_of([&] { tail_share(bad); }, ExitCode::usage),
                HasSubstr("expected a share above 0 and below 1"));
  }
}

TEST_F(ClickFiles, OtherTestDataAreRefused) {
  const LoadedData train = load_dataset(train_, options_);
  LoadOptions other = options_;
  other.vocabulary.min_frequency = 1;
  const LoadedData test = load_dataset(test_, other);
  save_dataset(binary_, *test.data, test.report);
  EXPECT_THAT(error_of([&] { load_dataset(binary_, options_for_test(options_, train)); }),
              HasSubstr("found another vocabulary, expected that of the training data"));
  const LoadedData sparse = load_dataset("generate:tiny", {});
  EXPECT_THAT(error_of([&] { load_dataset(test_, options_for_test({}, sparse)); }),
              HasSubstr("found click data, expected sparse features as in the training data"));
  EXPECT_THAT(error_of([&] { load_dataset("generate:tiny", options_for_test({}, train)); }),
              HasSubstr("found sparse features, expected click data as in the training data"));
  EXPECT_THAT(error_of([&] { write_xc(folder_ / "x", *train.data); }, ExitCode::usage),
              HasSubstr("click data cannot be written as XC text"));
  EXPECT_THAT(error_of(
                  [&] {
                    const ClickGenerator tiny(parse_click_spec(kTinyClicks));
                    write_criteo(folder_ / "x", tiny, DataPart::train, 1);
                  },
                  ExitCode::usage),
              HasSubstr("found 3 dense columns and 6 fields of ctr-tiny, expected 13 and 26"));
}

TEST(ClickSummary, CountsFields) {
  const LoadedData loaded = load_dataset("generate:ctr-tiny", {});
  const DatasetSummary s = summarise(*loaded.data, loaded.report);
  EXPECT_EQ(s.dense_columns, 3U);
  ASSERT_EQ(s.fields.size(), 6U);
  for (std::size_t f = 0; f < 6; ++f) {
    const FieldSummary& field = s.fields[f];
    const CategoricalFields<View>& fields = loaded.data->fields;
    EXPECT_EQ(field.categories, fields.first[f + 1] - fields.first[f]);
    EXPECT_GE(field.distinct + 2, field.categories);
    double missing = 0, rare = 0;
    for (std::uint64_t row = 0; row < s.rows; ++row) {
      missing += fields.row(row)[f] == fields.first[f];
      rare += fields.row(row)[f] == fields.first[f] + 1;
    }
    EXPECT_EQ(field.missing, missing / 20'000);
    EXPECT_EQ(field.rare, rare / 20'000);
  }
  EXPECT_EQ(s.features.total, 0U);
  EXPECT_EQ(s.density, 0);
}

}  // namespace
}  // namespace hetsgd
