#include "core/text.hpp"

namespace hetsgd {
namespace {

// Table 3-7 of the Unicode standard: the ends of each range, and what lies just outside.
TEST(Bytes, Utf8IsWhatTheStandardSays) {
  for (const char* good :
       {"a", "\u00e9", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
    EXPECT_EQ(utf8_length(good), std::string(good).size());
  }
  for (const char* bad : {"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3", "\xe2\x82", "a\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << nlohmann::json::binary({bad, bad + 1}).dump();
  }
}

TEST(Bytes, EveryTextReadsBackFromJson) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& text :
       {std::string(), std::string("data/train.txt"), std::string("100%/caf\u00e9"),
        std::string("bytes:x"), std::string("caf\xe9%41.txt"), std::string("bytes:%E9"), all}) {
    const std::string escaped = json_text(text);
    EXPECT_TRUE(is_utf8(escaped));
    const std::string document = nlohmann::json(escaped).dump();  // throws on what is not UTF-8
    EXPECT_EQ(bytes_of_json(nlohmann::json::parse(document).get<std::string>()), text);
  }
  // Each single byte after a prefix, too.
  for (const char c : all)
    EXPECT_EQ(bytes_of_json(json_text(std::string("x") + c)), std::string("x") + c);
}

TEST(Bytes, PlainNamesStayAsTheyAre) {
  EXPECT_EQ(json_text("data/caf\u00e9 100%.txt"), "data/caf\u00e9 100%.txt");
  EXPECT_EQ(json_text("data/caf\xe9 100%.txt"), "bytes:data/caf%E9 100%25.txt");
  EXPECT_EQ(bytes_of_json("bytes:5%"), "5%");  // as somebody may write it by hand
  EXPECT_EQ(bytes_of_json("a%41"), "a%41");
}

TEST(Bytes, ATerminalIsShownAndNotCommanded) {
  EXPECT_EQ(printable("\033[31mred\033[0m\x07 \x7f"), "\\x1b[31mred\\x1b[0m\\x07 \\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");  // CSI in one character
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(printable("a\nb\tc\rd", Lines::keep), "a\nb\tc\\rd");
  EXPECT_EQ(printable("caf\u00e9 \u65e5\u672c \U0001f600 \\x1b"),
            "caf\u00e9 \u65e5\u672c \U0001f600 \\x1b");
}

}  // namespace
}  // namespace hetsgd
