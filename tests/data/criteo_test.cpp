#include "data/criteo.hpp"

#include "data/clicks.hpp"
#include "data/generate_ctr.hpp"
#include "data/select.hpp"
#include "data/summary.hpp"
#include "data_test_util.hpp"

namespace hetsgd {
namespace {

// A line with these cells, the others empty: "label" 0, I from 1, C from 14.
std::string criteo_line(const std::map<int, std::string>& cells, const char* label = "0") {
  std::string line = label;
  for (int column = 1; column <= 39; ++column) {
    line += '\t';
    if (const auto at = cells.find(column); at != cells.end()) line += at->second;
  }
  return line + '\n';
}

LoadOptions every_value() {
  LoadOptions options;
  options.vocabulary.min_frequency = 1;
  return options;
}

// Text of the first rows of the generator, and these rows.
std::string generated_text(const std::string& spec, std::uint64_t rows) {
  const ClickGenerator generator(parse_click_spec(spec));
  ClickGenerator::Memory memory(generator);
  std::string text;
  for (std::uint64_t i = 0; i < rows; ++i) {
    append_criteo_line(generator.row(i, memory).click, text);
  }
  return text;
}

TEST(Criteo, ReadsALine) {
  const std::string text =
      criteo_line(
          {{1, "5"}, {2, "-1"}, {3, "0"}, {13, "123456789"}, {14, "68fd1e64"}, {39, "FFFFFFFF"}},
          "1") +
      criteo_line({{14, "00000000"}});
  EXPECT_TRUE(is_criteo_text(text));
  const RawClicks clicks = parse_criteo(text, "f", 1);
  EXPECT_EQ(clicks.rows(), 2U);
  EXPECT_THAT(clicks.positive, ElementsAre(1, 0));
  EXPECT_EQ(clicks.dense[0], std::log1pf(5.0F));
  EXPECT_EQ(clicks.dense[1], 0);  // negative
  EXPECT_EQ(clicks.dense[12], static_cast<float>(std::log1p(123456789.0)));
  EXPECT_EQ(clicks.value[0], 0x68fd1e64U);
  EXPECT_EQ(clicks.value[25], 0xFFFFFFFFU);
  EXPECT_EQ(clicks.no_value[0], 0x1FFFFFEU);
  EXPECT_EQ(clicks.no_value[1], 0x3FFFFFEU);  // 00000000 is a value
  // Without the last newline, as a file may end.
  EXPECT_EQ(parse_criteo(text.substr(0, text.size() - 1), "f", 2).value, clicks.value);
  // With empty lines at the end, and a byte order mark.
  EXPECT_EQ(parse_criteo(text + "\n\r\n\n", "f", 1).value, clicks.value);
  EXPECT_EQ(parse("\xef\xbb\xbf" + text + "\n", every_value()).data->rows(), 2U);
}

TEST(Criteo, EveryHexadecimalValue) {
  RandomStream random(5, Purpose::test);
  for (int i = 0; i < 2000; ++i) {
    const std::uint32_t value = random.next_u32();
    const std::string text = criteo_line({{20, fmt::format("{:08x}", value)}}) +
                             criteo_line({{20, fmt::format("{:08X}", value)}});
    const RawClicks clicks = parse_criteo(text, "f", 1);
    ASSERT_EQ(clicks.value[6], value);
    ASSERT_EQ(clicks.value[32], value);
  }
  // Each byte in each place: 22 of them are digits.
  int taken = 0;
  for (int byte = 1; byte < 256; ++byte) {
    if (byte == '\t' || byte == '\n') continue;
    for (std::size_t place = 0; place < 8; ++place) {
      std::string cell = "00000000";
      cell[place] = static_cast<char>(byte);
      try {
        parse_criteo(criteo_line({{14, cell}}), "f", 1);
        ++taken;
        EXPECT_NE(std::isxdigit(byte), 0) << byte;
      } catch (const Error&) {
      }
    }
  }
  EXPECT_EQ(taken, 22 * 8);
}

TEST(Criteo, SaysWhereAndWhatIsWrong) {
  const auto message = [](const std::string& line) {
    return error_of([&] { parse_criteo(criteo_line({}) + line, "f", 1); });
  };
  EXPECT_EQ(message(criteo_line({}, "2")), "f:2:1: the label: found '2', expected 0 or 1");
  EXPECT_EQ(message(criteo_line({{1, "7x"}})),
            "f:2:3: I1: found '7x', expected an integer of at most 15 digits, or nothing");
  EXPECT_THAT(message(criteo_line({{2, "-"}})), HasSubstr("f:2:4: I2: found '-', expected an int"));
  EXPECT_THAT(message(criteo_line({{2, "1000000000000000"}})), HasSubstr("f:2:4: I2: found '1000"));
  EXPECT_THAT(message(criteo_line({{2, "1.5"}})), HasSubstr("I2: found '1.5'"));
  EXPECT_EQ(message(criteo_line({{14, "68fd1e6"}})),
            "f:2:16: C1: found '68fd1e6', expected 8 hexadecimal digits, or nothing");
  EXPECT_THAT(message(criteo_line({{39, "68fd1e64a"}})), HasSubstr("C26: found '68fd1e64a'"));
  EXPECT_THAT(message("0\t1\n"), HasSubstr("f:2:4: found 2 columns, expected 40"));
  const std::string unlabelled = criteo_line({{1, "48"}}).substr(2);
  EXPECT_EQ(
      error_of([&] { parse(unlabelled); }),
      "test:1:41: found 39 columns, expected 40 | without labels, as Kaggle's test.txt? --test "
      "tail:1/7 holds out rows that have some");
  EXPECT_THAT(message("\n" + criteo_line({})), HasSubstr("f:2:1: found 1 columns, expected 40"));
  const std::string good = criteo_line({});
  EXPECT_THAT(message(good.substr(0, good.size() - 1) + "\t\n"), HasSubstr("found 41 columns"));
  EXPECT_THAT(error_of([] { parse_criteo("", "f", 1); }), HasSubstr("f: found an empty file"));
}

// If several threads find mistakes, the first one in the file is reported.
TEST(Criteo, TheFirstMistakeIsTold) {
  std::string text;
  while (text.size() < (std::size_t{6} << 20)) text += criteo_line({{1, "5"}, {14, "68fd1e64"}});
  const std::size_t lines = text.size() / criteo_line({{1, "5"}, {14, "68fd1e64"}}).size();
  const std::size_t width = text.size() / lines;
  for (const std::size_t line : {lines / 2, lines / 2 + 1, lines - 1}) text[line * width] = 'x';
  EXPECT_THAT(error_of([&] { parse_criteo(text, "f", 4); }),
              HasSubstr(fmt::format("f:{}:1: the label", lines / 2 + 1)));
}

TEST(Criteo, IsDetectedAndCompressed) {
  const TemporaryFolder folder;
  const std::string text = generated_text("generate:criteo?scale=0.0001", 300);
  write_file(folder / "plain", text);
  write_file(folder / "packed", gzip(text));
  LoadOptions options = every_value();
  options.cache_directory = folder / "cache";
  const LoadedData plain = load_dataset(folder / "plain", options);
  EXPECT_EQ(plain.report.format, DataFormat::criteo);
  expect_same_data(*plain.data, *load_dataset(folder / "packed", options).data);
  options.format = DataFormat::criteo;
  EXPECT_THAT(error_of([&] {
                write_file(folder / "other", "1 3:0.5\n");
                load_dataset(folder / "other", options);
              }),
              HasSubstr("other:1:8: found 1 columns, expected 40"));
}

// A vocabulary by its definition.
struct ReferenceVocabulary {
  ReferenceVocabulary(const RawClicks& clicks, std::uint64_t least, std::size_t rows) {
    first.push_back(0);
    for (std::size_t field = 0; field < clicks.field_count; ++field) {
      std::map<std::uint32_t, std::int64_t> count;
      for (std::size_t row = 0; row < rows; ++row) {
        if (!clicks.lacks(row, field)) ++count[clicks.value[row * clicks.field_count + field]];
      }
      std::vector<std::pair<std::int64_t, std::uint32_t>> order;
      for (const auto& [value, n] : count) {
        if (n >= static_cast<std::int64_t>(least)) order.emplace_back(-n, value);
      }
      std::sort(order.begin(), order.end());
      category.emplace_back();
      for (const auto& [n, value] : order) {
        category.back().emplace(value, static_cast<Index>(category.back().size() + 2));
      }
      first.push_back(first.back() + static_cast<Index>(order.size() + 2));
    }
  }
  Index row_of(const RawClicks& clicks, std::size_t row, std::size_t field) const {
    if (clicks.lacks(row, field)) return first[field];
    const auto at = category[field].find(clicks.value[row * clicks.field_count + field]);
    return first[field] + (at == category[field].end() ? 1 : at->second);
  }
  std::vector<Index> first;
  std::vector<std::map<std::uint32_t, Index>> category;
};

TEST(Vocabulary, IsThatOfItsDefinition) {
  const ClickGenerator generator(parse_click_spec("generate:criteo?scale=0.0002"));
  const RawClicks clicks = generator.part(DataPart::train, {});
  for (const std::uint64_t least : {1U, 2U, 10U}) {
    for (const HeldOut& held_out : {HeldOut{}, HeldOut{HeldOut::Which::tail, 1.0 / 7}}) {
      const bool tail = held_out.which == HeldOut::Which::tail;
      const std::size_t counted =
          tail ? split_rows(clicks.rows(), held_out).kept.size() : clicks.rows();
      const ReferenceVocabulary expected(clicks, least, counted);
      LoadOptions options;
      options.vocabulary.min_frequency = least;
      options.held_out = held_out;
      RawClicks copy = clicks;
      const ParsedData found = with_vocabulary(std::move(copy), "f", options);
      const CategoricalFields<View>& fields = found.data.fields;
      ASSERT_TRUE(std::ranges::equal(fields.first, expected.first));
      for (std::size_t row = 0; row < clicks.rows(); ++row) {
        for (std::size_t f = 0; f < kCriteoFields; ++f) {
          ASSERT_EQ(fields.row(row)[f], expected.row_of(clicks, row, f)) << row << " " << f;
          const Index category = fields.row(row)[f] - fields.first[f];
          ASSERT_EQ(fields.value_of(f, fields.row(row)[f]),
                    category < 2 ? category : clicks.value[row * kCriteoFields + f]);
        }
      }
    }
  }
}

TEST(Vocabulary, OfTheTrainingDataServesTheTestData) {
  const std::string train = criteo_line({{14, "aaaaaaaa"}}) + criteo_line({{14, "bbbbbbbb"}}, "1") +
                            criteo_line({{14, "bbbbbbbb"}});
  const LoadedData training = parse_text(train, "train", every_value());
  const std::string test = criteo_line({{14, "bbbbbbbb"}}) + criteo_line({{14, "cccccccc"}}) +
                           criteo_line({}) + criteo_line({{14, "aaaaaaaa"}});
  const LoadedData measured = parse_text(test, "test", options_for_test(every_value(), training));
  std::vector<Index> categories;
  for (std::uint64_t row = 0; row < 4; ++row) {
    categories.push_back(measured.data->fields.row(row)[0]);
  }
  EXPECT_THAT(categories, ElementsAre(2, 1, 0, 3));  // the commoner comes first
}

TEST(Vocabulary, OrHashing) {
  LoadOptions options;
  options.vocabulary.hash_size = 100;
  const LoadedData training = load_dataset("generate:ctr-tiny", options);
  const LoadedData test = load_dataset("generate:ctr-tiny", options_for_test(options, training));
  const ClickGenerator generator(parse_click_spec("generate:ctr-tiny"));
  const RawClicks clicks = generator.part(DataPart::test, {});
  const CategoricalFields<View>& fields = test.data->fields;
  EXPECT_TRUE(fields.value.empty());
  for (std::size_t f = 0; f <= fields.count(); ++f) EXPECT_EQ(fields.first[f], 102 * f);
  for (std::uint64_t row = 0; row < clicks.rows(); ++row) {
    for (std::uint32_t f = 0; f < fields.count(); ++f) {
      const Index expected =
          clicks.lacks(row, f) ? 0 : hashed_category(f, clicks.value[row * 6 + f], 100);
      ASSERT_EQ(fields.row(row)[f], 102 * f + expected);
      EXPECT_EQ(fields.value_of(f, fields.row(row)[f]), expected);
    }
  }
  options.vocabulary.hash_size = std::uint64_t{1} << 31;
  EXPECT_THAT(error_of([&] { load_dataset("generate:ctr-tiny", options); }),
              HasSubstr("expected less than 2^32"));
}

}  // namespace
}  // namespace hetsgd
