// Rows of CSV and their header, whose names say the units.
#include "core/csv.hpp"

#include "support/failure.hpp"

namespace hetsgd {
namespace {

std::string first_fields(const std::string& text) {
  std::string all;
  const std::string path = "f.csv";
  for (CsvRows rows(text, path, "rank,delay_s"); rows.next();) {
    all += fmt::format("{}:{} ", rows.line(), rows.field(0));
  }
  return all;
}

std::string refusal_of_rows(const std::string& text) {
  return test::failure_of([&] { first_fields(text); }).message;
}

TEST(CsvRows, SkipsHeaderCommentsAndEmptyLines) {
  for (const char* header :
       {"", "rank,delay_s\n", " rank , delay_s\r\n", "\"Rank\", \"delay_s\"\n", "# rank,delay_s\n",
        "# delays in the lab\nrank,delay_s\n", "# delays, measured\n"}) {
    const auto lines = std::count(header, header + std::string(header).size(), '\n');
    EXPECT_EQ(first_fields(std::string(header) + "0,1\n\n# 2\n 3 ,4\r\n\n"),
              fmt::format("{}:0 {}:3 ", lines + 1, lines + 4));
  }
}

TEST(CsvRows, RefusesOtherNamesAndUnits) {
  for (const char* header : {"rank,delay_ms", "rank,delay", "delay_s,rank", "rank,delay_s,host",
                             "\"rank\",\"delay (us)\"", "# rank,delay_ms", "time"}) {
    EXPECT_THAT(refusal_of_rows(std::string(header) + "\n0,1\n"),
                HasSubstr("expected the header rank,delay_s"))
        << header;
  }
  EXPECT_EQ(refusal_of_rows("# measured\n\nrank,ms\n0,1\n"),
            "f.csv:3:1: found \"rank,ms\", expected the header rank,delay_s");
}

TEST(CsvRows, RefusesOtherNumbersOfFieldsAndOtherFiles) {
  EXPECT_EQ(refusal_of_rows("0,1\n\n2;3\n"), "f.csv:3:1: found 1 fields, expected 2: rank,delay_s");
  EXPECT_THAT(refusal_of_rows("0,1\r1,2\r"), HasSubstr("carriage return alone"));
}

TEST(CsvRows, RefusesOtherNumbers) {
  const std::string path = "f.csv";
  for (const std::string field : {"x", "-1", "4", "nan", "1e400", "0x1", "1s", "", "2.5"}) {
    const std::string text = "0, " + field + "\n";
    CsvRows rows(text, path, "rank,delay_s");
    EXPECT_TRUE(rows.next());
    EXPECT_EQ(rows.whole(0, 3, "a rank"), 0U);
    EXPECT_EQ(test::failure_of([&] { rows.whole(1, 3, "0 to 3"); }).message,
              "f.csv:1:3: found \"" + field + "\", expected 0 to 3");
  }
}

}  // namespace
}  // namespace hetsgd
