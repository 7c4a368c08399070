#include "core/text.hpp"

#include "support/failure.hpp"

namespace hetsgd {
namespace {

using test::usage_error_of;

TEST(ParseSeconds, TakesEveryUnit) {
  const auto s = [](const char* text) { return parse_seconds("--t", text).count(); };
  EXPECT_EQ(s("90s"), 90.0);
  EXPECT_EQ(s("50ms"), Seconds(50ms).count());
  EXPECT_EQ(s("200us"), 200.0 / 1e6);
  EXPECT_EQ(s("7ns"), 7.0 / 1e9);
  EXPECT_EQ(s("1.5h"), 5400.0);
  EXPECT_EQ(s("2m"), 120.0);
  EXPECT_EQ(s("2min"), 120.0);
  EXPECT_EQ(s("1d"), 86400.0);
  EXPECT_EQ(s("0.25"), 0.25);
  EXPECT_EQ(s("1e-3"), 1e-3);
  EXPECT_EQ(s("5S"), 5.0);
  EXPECT_EQ(s("0"), 0.0);
}

TEST(ParseSeconds, RefusesTheRest) {
  EXPECT_EQ(usage_error_of([] { parse_seconds("--max-time", "5x"); }),
            "--max-time: found \"5x\", expected a time such as 90s, 50ms or 1.5h");
  for (const char* text : {"", "s", "-1s", "-0", "nan", "inf", "1e999", "5 s", "5ss", " 5s", "1,5s",
                           "+5s", "1e308h", "0x10"}) {
    EXPECT_EQ(usage_error_of([&] { parse_seconds("--t", text); }),
              fmt::format("--t: found \"{}\", expected a time such as 90s, 50ms or 1.5h", text));
  }
}

TEST(ParseCount, IsDecimal) {
  EXPECT_EQ(parse_count("--n", "10K"), 10'000U);
  EXPECT_EQ(parse_count("--n", "1.5M"), 1'500'000U);
  EXPECT_EQ(parse_count("--n", "0.1M"), 100'000U);
  EXPECT_EQ(parse_count("--n", "2g"), 2'000'000'000U);
  EXPECT_EQ(parse_count("--n", "1e6"), 1'000'000U);
  EXPECT_EQ(parse_count("--n", "0"), 0U);
  // Without a suffix all 64 bits are exact.
  EXPECT_EQ(parse_count("--n", "18446744073709551615"), 18446744073709551615U);
}

TEST(ParseCount, RefusesFractionsSignsAndOverflow) {
  EXPECT_EQ(usage_error_of([] { parse_count("--max-samples", "1.5"); }),
            "--max-samples: found \"1.5\", expected a count such as 500, 10K or 1.5M");
  for (const char* text : {"", "-1", "-1K", "1.0001K", "K", "10KiB", "1T", "10 K", "nan", "1e-3"}) {
    EXPECT_EQ(usage_error_of([&] { parse_count("--n", text); }),
              fmt::format("--n: found \"{}\", expected a count such as 500, 10K or 1.5M", text));
  }
  EXPECT_EQ(usage_error_of([] { parse_count("--n", "18446744073709551616"); }),
            "--n: found \"18446744073709551616\", expected less than 2^63");
}

TEST(ParseBytes, IsBinary) {
  EXPECT_EQ(parse_bytes("--b", "64K"), 65'536U);
  EXPECT_EQ(parse_bytes("--b", "64KiB"), 65'536U);
  EXPECT_EQ(parse_bytes("--b", "1.5m"), 3U << 19);
  EXPECT_EQ(parse_bytes("--b", "8G"), std::uint64_t{8} << 30);
  EXPECT_EQ(parse_bytes("--b", "1TiB"), std::uint64_t{1} << 40);
  EXPECT_EQ(parse_bytes("--b", "512B"), 512U);
  EXPECT_EQ(parse_bytes("--b", "4096"), 4096U);
  EXPECT_EQ(usage_error_of([] { parse_bytes("--b", "8KB"); }),
            "--b: found \"8KB\", expected a size in bytes such as 4096, 64K or 64MiB");
}

TEST(ParseNumbers, CheckTheRange) {
  EXPECT_EQ(parse_double("--lr", "1e-3"), 1e-3);
  EXPECT_EQ(parse_integer("--n", "-12"), -12);
  EXPECT_EQ(usage_error_of([] { parse_double("--lr", "0,5"); }),
            "--lr: found \"0,5\", expected a number");
  EXPECT_EQ(usage_error_of([] { parse_double("--lr", "-1", 0.0); }),
            "--lr: found \"-1\", expected a number of at least 0");
  EXPECT_EQ(usage_error_of([] { parse_double("--gamma", "1.5", 0.0, 1.0); }),
            "--gamma: found \"1.5\", expected a number from 0 to 1");
  EXPECT_EQ(usage_error_of([] { parse_integer("--workers", "0", 1); }),
            "--workers: found \"0\", expected a whole number of at least 1");
  EXPECT_EQ(usage_error_of([] { parse_integer("--n", "2.0"); }),
            "--n: found \"2.0\", expected a whole number");
  EXPECT_EQ(usage_error_of([] { parse_integer("--n", "99999999999999999999"); }),
            "--n: found \"99999999999999999999\", expected a whole number");
  EXPECT_THAT(parse_doubles("--speed", "1,0.92, 0.84"), ElementsAre(1, 0.92, 0.84));
  EXPECT_EQ(usage_error_of([] { parse_doubles("--speed", "1,,2"); }),
            "--speed: found \"\", expected a number");
  EXPECT_TRUE(parse_bool("--b", "Yes"));
  EXPECT_FALSE(parse_bool("--b", "off"));
  EXPECT_EQ(usage_error_of([] { parse_bool("--b", "2"); }),
            "--b: found \"2\", expected true or false");
}

TEST(RankSet, ReadsRangesAndWritesThemBack) {
  EXPECT_THAT(parse_rank_set("--r", "0-3;5", 8), ElementsAre(0, 1, 2, 3, 5));
  EXPECT_THAT(parse_rank_set("--r", "5;0-1;1-2", 8), ElementsAre(0, 1, 2, 5));
  EXPECT_THAT(parse_rank_set("--r", "all", 3), ElementsAre(0, 1, 2));
  for (const char* text : {"0-3;5", "7", "0;2;4", "0-7"}) {
    EXPECT_EQ(format_rank_set(parse_rank_set("--r", text, 8)), text);
  }
  for (const char* text :
       {"", "8", "3-1", "-1", "1-2-3", "0-", "a", "0,1", "0;;1", "99999999999"}) {
    EXPECT_EQ(
        usage_error_of([&] { parse_rank_set("--r", text, 8); }),
        fmt::format("--r: found \"{}\", expected ranks from 0 to 7 such as 0-3;5, or all", text));
  }
}

TEST(Format, SecondsForPeople) {
  EXPECT_EQ(format_seconds(0s), "0 s");
  EXPECT_EQ(format_seconds(850us), "850 us");
  EXPECT_EQ(format_seconds(12.3ms), "12.3 ms");
  EXPECT_EQ(format_seconds(999.6us), "1 ms");
  EXPECT_EQ(format_seconds(999.9ms), "1 s");
  EXPECT_EQ(format_seconds(1.25s), "1.25 s");
  EXPECT_EQ(format_seconds(99.96s), "1m 40s");
  EXPECT_EQ(format_seconds(125s), "2m 05s");
  EXPECT_EQ(format_seconds(3599.7s), "1h 00m");
  EXPECT_EQ(format_seconds(3720s), "1h 02m");
  EXPECT_EQ(format_seconds(72h), "3d 00h");
  EXPECT_EQ(format_seconds(Seconds(INFINITY)), "inf s");
  EXPECT_EQ(format_seconds(-2.5s), "-2.5 s");
}

TEST(Format, BytesAndCountsForPeople) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(42.6 * 1048576), "42.6 MiB");
  EXPECT_EQ(format_bytes(1023 * 1024.0), "0.999 MiB");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(983), "983");
  EXPECT_EQ(format_count(9999), "9,999");
  EXPECT_EQ(format_count(12920), "12.9K");
  EXPECT_EQ(format_count(1'294'000), "1.29M");
  EXPECT_EQ(format_count(999'900), "1M");
  EXPECT_EQ(format_count(3.4e9), "3.4G");
  EXPECT_EQ(format_count(2.5), "2.5");
  EXPECT_EQ(format_count(-1234), "-1,234");
}

TEST(Format, QuoteNeverBreaksTheLine) {
  EXPECT_EQ(quote("a\tb\n\"\\\x01"), R"("a\tb\n\"\\\x01")");
  EXPECT_EQ(quote(std::string(61, 'x')), '"' + std::string(60, 'x') + "...\"");
  EXPECT_EQ(quote(std::string(60, 'x')), '"' + std::string(60, 'x') + "\"");
}

TEST(Format, Alternatives) {
  EXPECT_EQ(alternatives(std::vector<std::string>{}), "");
  EXPECT_EQ(alternatives(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(alternatives(std::vector<std::string>{"a", "b"}), "a or b");
  EXPECT_EQ(alternatives(std::vector<std::string>{"a", "b", "c"}), "a, b or c");
}

TEST(EditDistance, KnownValues) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("uniform", "unifrom"), 1U);  // one swap
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);           // restricted: no edit inside a swap
}

TEST(Nearest, FindsWhatWasMeant) {
  const std::vector<std::string> options{"--batch-size", "--learning-rate", "--workers", "--seed"};
  EXPECT_EQ(nearest("--batchsize", options), "--batch-size");
  EXPECT_EQ(nearest("--batch_size", options), "--batch-size");
  EXPECT_EQ(nearest("--learnign-rate", options), "--learning-rate");
  EXPECT_EQ(nearest("-Workers", options), "--workers");
  EXPECT_EQ(nearest("--learn", options), "--learning-rate");  // a beginning
  EXPECT_EQ(nearest("--momentum", options), std::nullopt);
  EXPECT_EQ(nearest("", options), std::nullopt);
  EXPECT_EQ(nearest("--", options), std::nullopt);
  EXPECT_EQ(did_you_mean("sed", options), "did you mean \"--seed\"?");
  EXPECT_EQ(did_you_mean("quux", options), "");
}

TEST(Split, KeepsEmptyParts) {
  EXPECT_THAT(split("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split(",", ','), ElementsAre("", ""));
  EXPECT_EQ(trim(" \ta b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

}  // namespace
}  // namespace hetsgd
