// --format text: characters, bytes and words; blocks and lines; what is refused and what is said.
#include "data/text/read_text.hpp"

#include <cstdlib>

#include "data/sampler.hpp"
#include "data/select.hpp"
#include "data/sequences.hpp"
#include "data/summary.hpp"
#include "data/text/characters.hpp"
#include "data/write.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

LoadOptions text_options(const TextRules& rules) {
  LoadOptions options;
  options.format = DataFormat::text;
  options.text = rules;
  return options;
}
LoadedData read(const std::string& text, const TextRules& rules) {
  LoadedData loaded = parse_text(text, "test", text_options(rules));
  EXPECT_THAT(verify(*loaded.data), IsEmpty());
  return loaded;
}
std::string failure(const std::string& text, const TextRules& rules) {
  return error_of([&] { parse_text(text, "book.txt", text_options(rules)); }, ExitCode::data);
}
constexpr TextRules characters(std::uint32_t block) { return {.block = block}; }
constexpr TextRules lines(TokenKind tokens = TokenKind::characters, std::uint32_t block = 256) {
  return {.tokens = tokens, .rows = TextRows::lines, .block = block};
}
constexpr TextRules words(std::uint32_t block) {
  return {.tokens = TokenKind::words, .block = block};
}

// The names of a row's inputs and of its last target, joined.
std::string shown(const LoadedData& loaded, Index row) {
  std::string text;
  const Batch batch(*loaded.data, {row});
  for (const std::uint16_t token : tokens_of(batch, 0)) {
    text += loaded.report.label_names[token];
  }
  return text;
}

TEST(ReadText, CharactersAreCodePointsInAscendingOrder) {
  const LoadedData loaded = read("\xEF\xBB\xBFz\xC3\xA9\r\na\xF0\x9F\x8E\xB5\ra\n", characters(2));
  EXPECT_THAT(loaded.report.label_names,
              ElementsAre("\n", "\r", "a", "z", "\xC3\xA9", "\xF0\x9F\x8E\xB5"));
  EXPECT_THAT(loaded.data->tokens.token, ElementsAre(3, 4, 0, 2, 5, 1, 2, 0));
  EXPECT_EQ(loaded.data->label_count, 6U);
  EXPECT_EQ(loaded.report.text.returns, 1U);
  // floor(8 / 2) - 1 rows; their targets have 2 + 1, 1 + 4 and 1 + 1 bytes.
  EXPECT_EQ(loaded.data->rows(), 3U);
  EXPECT_THAT(loaded.data->tokens.bytes, ElementsAre(3, 5, 2));
}

TEST(ReadText, EveryCharacterHasItsForm) {
  std::string text;
  for (const char32_t c :
       {0x0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}) {
    text += utf8_of(c);
  }
  const LoadedData loaded = read(text, characters(1));
  EXPECT_THAT(loaded.report.label_names, SizeIs(10));
  for (std::uint16_t i = 0; i < 10; ++i) EXPECT_EQ(loaded.data->tokens.token[i], i);
}

TEST(ReadText, BytesDropNothing) {
  const std::string text = std::string("\xEF\xBB\xBF\xFF\r\n", 6) + '\0' + "b";
  const LoadedData loaded = read(text, {.tokens = TokenKind::bytes, .block = 2});
  EXPECT_EQ(loaded.data->tokens.vocabulary, 256U);
  EXPECT_THAT(loaded.data->tokens.token, ElementsAre(0xEF, 0xBB, 0xBF, 0xFF, 13, 10, 0, 'b'));
  EXPECT_THAT(loaded.data->tokens.bytes, ElementsAre(2, 2, 2));
}

// The commonest word first, ties by bytes; blanks separate, other characters stand alone.
TEST(ReadText, WordsAreCountedAndNumbered) {
  const LoadedData loaded =
      read("the  cat, the dog\r\ndon't-stop the\xE2\x80\x83\xC3\xA9t\xC3\xA9, x1\n", words(3));
  EXPECT_THAT(loaded.report.label_names, ElementsAre("<unknown>", "\n", "the", ",", "cat", "dog",
                                                     "don't-stop", "x1", "\xC3\xA9t\xC3\xA9"));
  EXPECT_THAT(loaded.data->tokens.token, ElementsAre(2, 4, 3, 2, 5, 1, 6, 2, 8, 3, 7, 1));
  // Each target covers the blanks before it: "  cat" "," " the", " dog" "\n" "don't-stop".
  EXPECT_THAT(loaded.data->tokens.bytes, ElementsAre(5 + 1 + 4, 4 + 1 + 10, 4 + 8 + 1));
  EXPECT_EQ(loaded.report.text.words, 12U);
  EXPECT_EQ(loaded.report.text.unknown, 0U);
}

TEST(ReadText, RareWordsAreUnknown) {
  TextRules rules = words(2);
  rules.vocabulary_size = 4;
  const LoadedData few = read("a b b c c c d\n", rules);
  EXPECT_THAT(few.report.label_names, ElementsAre("<unknown>", "\n", "c", "b"));
  EXPECT_THAT(few.data->tokens.token, ElementsAre(0, 3, 3, 2, 2, 2, 0, 1));
  EXPECT_THAT(remarks_on(few.report.text), ElementsAre("25.00 % of the words are unknown"));
  LoadOptions options = text_options(words(2));
  options.vocabulary.min_frequency = 3;
  EXPECT_THAT(parse_text("a b b c c c d\n", "test", options).report.label_names,
              ElementsAre("<unknown>", "\n", "c"));
}

// Words of the tail count for nothing: six blocks of two, of which one is held out.
TEST(ReadText, WordsOfHeldOutRowsAreNotLearnt) {
  LoadOptions options = text_options(words(2));
  options.held_out = {HeldOut::Which::tail, 0.2};
  const LoadedData loaded = parse_text("a a a a b b a a z z y y x x", "test", options);
  EXPECT_THAT(loaded.report.label_names, ElementsAre("<unknown>", "\n", "a", "b", "z"));
  EXPECT_EQ(loaded.data->rows(), 6U);
  const LoadedPair pair = hold_out(loaded, options.held_out);
  EXPECT_EQ(pair.test.data->rows(), 1U);
  EXPECT_EQ(shown(pair.test, 0), "<unknown><unknown><unknown>");
}

TEST(ReadText, BlocksCoverTheTextOnce) {
  std::string text;
  for (int i = 0; i < 1003; ++i) text += static_cast<char>('a' + i % 23);
  for (const std::uint32_t block : {1U, 7U, 256U, 334U, 335U, 501U, 502U, 1002U}) {
    const LoadedData loaded = read(text, characters(block));
    ASSERT_EQ(loaded.data->rows(), 1002 / block);
    for (Index row = 0; row < loaded.data->rows(); ++row) {
      EXPECT_EQ(shown(loaded, row), text.substr(row * block, block + 1));
    }
    EXPECT_EQ(loaded.data->tokens.room, block - 1);
  }
}

// With the shift, rows are the text from row * block + the draw on, wherever they were dealt.
TEST(ReadText, ShiftedBlocksAreStretchesOfTheText) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += utf8_of(static_cast<char32_t>(0x4000 + i));
  const LoadedData loaded = read(text, characters(8));
  const Sampler sampler(
      loaded.data,
      {.partition = Partition::iid, .workers = 3, .augmentation = Augmentation::shift});
  std::map<std::uint64_t, int> offsets;
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<Index> rows = sampler.shard(rank);
    const Sampler own(shard_of(*loaded.data, rows), sampler.options(), rank);
    Batch all, part;
    sampler.fill(rank, {20, 100}, all);
    own.fill(rank, {20, 100}, part);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto row = tokens_of(all, i);
      EXPECT_TRUE(std::ranges::equal(row, tokens_of(part, i)));
      EXPECT_EQ(row.back() - row.front(), 8);
      ++offsets[row.front() - 8U * all.rows()[i]];
    }
  }
  EXPECT_THAT(offsets, SizeIs(8));
  EXPECT_EQ(offsets.rbegin()->first, 7U);
}

TEST(ReadText, ALineIsARowFromOneLineEndToTheNext) {
  const LoadedData loaded = read("ab\n\n\r\nc\nlong", lines(TokenKind::characters, 3));
  ASSERT_EQ(loaded.data->rows(), 4U);
  EXPECT_EQ(shown(loaded, 0), "\nab\n");
  EXPECT_EQ(shown(loaded, 1), "\nc\n");
  EXPECT_EQ(shown(loaded, 2), "\nlon");
  EXPECT_EQ(shown(loaded, 3), "ng\n");
  EXPECT_THAT(loaded.data->tokens.length, ElementsAre(3, 2, 3, 2));
  EXPECT_THAT(loaded.data->tokens.bytes, ElementsAre(3, 2, 3, 2));
  EXPECT_EQ(loaded.data->tokens.room, 0U);
  EXPECT_THAT(remarks_on(loaded.report.text),
              ElementsAre("2 empty lines are no rows",
                          "1 lines are longer than --block and became several rows",
                          "1 carriage returns before line ends were dropped"));
  const LoadedData of_words = read("In the \n  \nend", lines(TokenKind::words));
  EXPECT_EQ(of_words.data->rows(), 2U);
  EXPECT_EQ(shown(of_words, 1), "\nend\n");
  EXPECT_EQ(of_words.report.text.empty_lines, 1U);
}

TEST(ReadText, BucketedOrderSortsLinesByLength) {
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += std::string(static_cast<std::size_t>(1 + i * 7 % 50), 'x') + "\n";
  const LoadedData loaded = read(text, lines());
  const Sampler sampler(loaded.data, {.order = Order::bucketed, .batch = 8});
  double padded = 0, real = 0;
  for (std::uint64_t i = 0; i < 50; ++i) {
    Batch batch;
    sampler.fill(0, {i * 8, 8}, batch);
    padded += batch.shape().steps * batch.shape().samples;
    real += batch.shape().frames;
  }
  EXPECT_LT(padded / real, 1.1);
}

TEST(ReadText, LabelSortedShardsAreContiguousAndDirichletIsRefused) {
  const LoadedData loaded = read(std::string(400, 'x'), characters(4));
  Sampler::Options options{.partition = Partition::label_sorted, .workers = 4};
  std::vector<Index> expected(25);
  std::iota(expected.begin(), expected.end(), Index{24});
  expected.resize(Sampler(loaded.data, options).shard(1).size());
  EXPECT_EQ(Sampler(loaded.data, options).shard(1), expected);
  options.partition = Partition::dirichlet;
  EXPECT_THAT(error_of([&] { Sampler(loaded.data, options); }, ExitCode::usage),
              AllOf(HasSubstr("--partition: found dirichlet with rows of tokens"),
                    HasSubstr("label_sorted")));
}

// Shifted, the last block before a tail would have targets in the tail.
TEST(ReadText, ATailSharesNoTargetWithTheTrainingRows) {
  std::string text;
  for (int i = 0; i < 400; ++i) text += utf8_of(static_cast<char32_t>(0x4000 + i));
  const LoadedPair pair = hold_out(read(text, characters(4)), {HeldOut::Which::tail, 0.1});
  EXPECT_EQ(pair.train.data->rows(), 99 - 10);
  EXPECT_EQ(pair.test.data->rows(), 10U);
  const auto& train = pair.train.data->tokens;
  const auto& test = pair.test.data->tokens;
  for (std::uint64_t row = 0; row < train.rows(); ++row) {
    EXPECT_LE(train.reach(row).back(), test.reach(0)[0]) << row;
  }
}

TEST(ReadText, ATestTextHasTheKindsOfTheTrainingText) {
  for (const TokenKind kind : {TokenKind::characters, TokenKind::bytes, TokenKind::words}) {
    const LoadOptions options = text_options({.tokens = kind, .block = 2});
    const LoadedData train = parse_text("a b c d e f\n", "train", options);
    const LoadedData test = parse_text("c c b b d d", "test", options_for_test(options, train));
    EXPECT_EQ(test.report.label_names, train.report.label_names);
    EXPECT_EQ(test.data->tokens.vocabulary, train.data->tokens.vocabulary);
    const auto name = [&](std::size_t i) {
      return test.report.label_names[test.data->tokens.token[i]];
    };
    EXPECT_EQ(name(0), kind == TokenKind::bytes ? "99" : "c");
  }
  const LoadOptions options = text_options(characters(2));
  const LoadedData train = parse_text("abcab", "train", options);
  EXPECT_THAT(
      error_of([&] { parse_text("ab\nabxab", "test.txt", options_for_test(options, train)); },
               ExitCode::data),
      AllOf(HasSubstr("test.txt: the character of number 3, in line 1: found \"\\n\""),
            HasSubstr("one of the 3 kinds of the training data"), HasSubstr("--tokens bytes")));
  const LoadOptions of_words = text_options(words(2));
  EXPECT_THAT(
      error_of([&] { parse_text("a b c d", "test.txt", options_for_test(of_words, train)); },
               ExitCode::data),
      HasSubstr("test.txt: found another kind of tokens, expected that of the training data"));
  const LoadedData numbers = parse_text("1 1:1\n0 2:1\n", "rows.txt", {});
  EXPECT_THAT(error_of([&] { parse_text("abcab", "test.txt", options_for_test(options, numbers)); },
                       ExitCode::data),
              HasSubstr("test.txt: found rows of tokens, expected rows with labels"));
}

TEST(ReadText, BadTextsAreErrorsThatNameThePlace) {
  EXPECT_THAT(failure("", characters(2)), HasSubstr("book.txt: found an empty file"));
  EXPECT_THAT(failure("abc", characters(3)),
              HasSubstr("found a text of 3 tokens, expected at least 4, one more than --block"));
  EXPECT_THAT(failure("\n\r\n\n", lines()), HasSubstr("book.txt: found empty lines only"));
  EXPECT_THAT(
      failure("ab\nlong\n", {.rows = TextRows::lines, .block = 4, .long_lines = LongLines::refuse}),
      AllOf(HasSubstr("book.txt:2: found a line of 5 tokens with its end, expected at most "
                      "--block 4"),
            HasSubstr("--long-lines split")));
  EXPECT_THAT(
      failure(std::string("ab\n\0", 4), words(1)),
      AllOf(HasSubstr("book.txt:2: byte offset 3: found a NUL"), HasSubstr("--tokens bytes")));
  std::string all;
  for (char32_t c = 0x10000; c <= 0x20000; ++c) all += utf8_of(c);
  EXPECT_THAT(failure(all, characters(2)),
              AllOf(HasSubstr("found 65537 kinds of characters, expected at most 65536"),
                    HasSubstr("--tokens bytes")));
}

// Stray and missing continuation bytes, overlong forms, surrogates, and code points beyond the
// last.
TEST(ReadText, TextThatIsNotUtf8IsAnError) {
  for (const char* bytes :
       {"\x80", "\xC3", "\xC3(", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE2\x82", "\xED\xA0\x80",
        "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    for (const TextRules& rules : {characters(1), words(1)}) {
      EXPECT_THAT(failure(std::string("\xEF\xBB\xBFone\ntwo ") + bytes, rules),
                  AllOf(HasSubstr("book.txt:2: byte offset 11: found the byte 0x"),
                        HasSubstr("expected text in UTF-8"), HasSubstr("--tokens bytes")))
          << bytes;
    }
  }
}

TEST(ReadText, StoredRowsAreThoseOfTheText) {
  const test::TemporaryFolder folder;
  std::string text;
  RandomStream random(5, Purpose::test);
  for (int i = 0; i < 3000; ++i) text += "ab c\n'd,"[random.below(8)];
  for (const TextRules& rules : {characters(16), lines(), lines(TokenKind::words, 5), words(4)}) {
    const LoadedData loaded = read(text, rules);
    const std::string path = folder / "text.hsgd";
    save_dataset(path, *loaded.data, loaded.report);
    const LoadedData stored = load_dataset(path, {});
    expect_same_data(*loaded.data, *stored.data);
    EXPECT_EQ(stored.report.label_names, loaded.report.label_names);
    EXPECT_EQ(stored.report.text, loaded.report.text);
    EXPECT_EQ(stored.data->content_hash, loaded.data->content_hash);
    // Some rows alone, as a rank reads its shard.
    LoadOptions some;
    const Index last = static_cast<Index>(loaded.data->rows() - 1);
    some.train_rows.rows = [&](const Dataset& outline) {
      EXPECT_EQ(outline.rows(), loaded.data->rows());
      EXPECT_EQ(outline.task, Task::tokens);
      return std::vector<Index>{last, 0, 2, 2};
    };
    const LoadedData shard = load_dataset(path, some);
    expect_same_data(*shard.data, *shard_of(*loaded.data, std::vector<Index>{last, 0, 2, 2}));
    EXPECT_EQ(shard.data->totals().frames, loaded.data->totals().frames);
  }
}

TEST(ReadText, ACutTokenGroupIsAnError) {
  const LoadedData loaded = read("some text, again some text", characters(4));
  const std::string bytes = binary_form(*loaded.data, loaded.report);
  for (const std::size_t size : {bytes.size() - 1, bytes.size() - 64, bytes.size() / 2}) {
    const std::string cut = bytes.substr(0, size);
    EXPECT_THAT(error_of([&] { decode_binary(MemorySource(cut), "cut.hsgd"); }, ExitCode::data),
                HasSubstr("cut.hsgd: cut off or grown"));
  }
  for (std::size_t at = 0; at < bytes.size(); at += 7) {
    const std::string broken = damaged(bytes, at);
    EXPECT_NE(error_of([&] { decode_binary(MemorySource(broken), "test"); }, ExitCode::data), "");
  }
}

TEST(ReadText, CompressedFilesAndTheCacheGiveTheSameRows) {
  const test::TemporaryFolder folder;
  const std::string text = "one two three\nfour five six\nseven eight nine\n", path = folder / "t";
  const TextRules rules = lines(TokenKind::words);
  std::ofstream(path) << text;
  std::ofstream(path + ".gz") << gzip(text);
  LoadOptions options = text_options(rules);
  options.cache_directory = folder / "cache";
  const LoadedData plain = load_dataset(path, options);
  const LoadedData cached = load_dataset(path, options);
  EXPECT_TRUE(cached.report.from_cache);
  expect_same_data(*plain.data, *cached.data);
  EXPECT_EQ(plain.report.label_names, cached.report.label_names);
  expect_same_data(*plain.data, *load_dataset(path + ".gz", options).data);
  // Other rules are another entry.
  options.text.block = 2;
  EXPECT_FALSE(load_dataset(path, options).report.from_cache);
  options.vocabulary.min_frequency = 2;
  EXPECT_FALSE(load_dataset(path, options).report.from_cache);
}

// Real text: the King James Version, 1,198,327 bytes.
class RealText : public testing::Test {
 protected:
  void SetUp() override {
    const char* const folder = std::getenv("HETSGD_DATA_DIR");
    if (folder == nullptr || *folder == '\0') GTEST_SKIP() << "HETSGD_DATA_DIR is not set";
    path_ = std::string(folder) + "/kjv/kjv.txt";
    if (!std::filesystem::exists(path_)) GTEST_SKIP() << path_ << " is not there";
  }
  LoadedData load(const TextRules& rules) const {
    LoadOptions options = text_options(rules);
    options.cache = CacheMode::off;
    return load_dataset(path_, options);
  }

  std::string path_;
};

TEST_F(RealText, Kjv) {
  const LoadedData blocks = load(characters(256));
  EXPECT_EQ(blocks.report.file_bytes, 1'198'327U);
  EXPECT_EQ(blocks.data->tokens.token.size(), 1'198'327U);
  EXPECT_EQ(blocks.data->tokens.vocabulary, 62U);
  EXPECT_EQ(blocks.data->rows(), (1'198'327 - 1) / 256);
  const LoadedData lined = load(lines(TokenKind::characters, 1024));
  EXPECT_EQ(lined.data->rows(), 8300U);
  double squares = 0;
  for (const std::uint32_t length : lined.data->tokens.length) {
    squares += std::pow(length - 1 - 143.4, 2) / 8300;
  }
  EXPECT_NEAR(summarise(*lined.data, lined.report).token_targets.mean - 1, 143.4, 0.05);
  EXPECT_NEAR(std::sqrt(squares), 57.2, 0.1);
  const LoadedData worded = load(words(64));
  EXPECT_EQ(worded.data->tokens.token.size(), 264'968U + 8300);
  EXPECT_EQ(worded.data->tokens.vocabulary, 6524U + 2);
  EXPECT_EQ(worded.report.text.unknown, 0U);
}

}  // namespace
}  // namespace hetsgd
