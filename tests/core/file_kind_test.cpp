// Each kind of file is told by its bytes, and text of any kind is none of them.

#include "core/input_file.hpp"
#include "support/failure.hpp"
#include "support/temporary_file.hpp"

namespace hetsgd {
namespace {

using std::string_literals::operator""s;

std::string refusal_of_kind(const std::string& text, TextUse use = TextUse::any) {
  return test::failure_of([&] { refuse_other_kinds(text, "f", "text", use); }).message;
}

TEST(FileKind, OthersAreNamed) {
  const std::string content = "1 1:1 2:2\n";
  std::string wide;  // UTF-16 without a mark
  for (const char c : content + content) wide += std::string{c, '\0'};
  const std::pair<std::string, const char*> kinds[] = {
      {"\xFD\x37zXZ"s, "an xz stream"},
      {"PK\x03\x04", "a zip archive"},
      {content + std::string(257 - content.size(), '\0') + "ustar", "a tar archive"},
      {"PAR1", "a Parquet file"},
      {"\x89HDF\r\n\x1a\n", "an HDF5 file"},
      {"\x93NUMPY\x01", "a NumPy array"},
      {"\x80\x02}q", "a pickle"},
      {"\x1f\x8b", "a gzip stream"},
      {"BZh9", "a bzip2 stream"},
      {"\x28\xb5\x2f\xfd", "a zstd stream"},
      {"HSGDCKPT", "a checkpoint"},
      {"\xff\xfe" + wide, "UTF-16"},
  };
  for (const auto& [bytes, what] : kinds) {
    EXPECT_THAT(refusal_of_kind(bytes + content), AllOf(StartsWith("f: found "), HasSubstr(what)));
  }
}

TEST(FileKind, TextIsRefusedWhereItsReaderCannotTakeIt) {
  for (const TextUse use : {TextUse::any, TextUse::rows}) {
    for (const char* text :
         {"", "1", "1 1:1\r\n", "1 1:1\r", "\xef\xbb\xbf\n", "\xc3\xa9\n", "a\tb\x1b[0m"}) {
      EXPECT_EQ(refusal_of_kind(text, use), "") << text;
    }
  }
  for (const auto& [text, what] :
       {std::pair("1 1:1\r2 1:1\r", "carriage return alone"),
        std::pair("\n<!DOCTYPE html>\n", "HTML"), std::pair("{\"a\": 1}\n", "JSON")}) {
    EXPECT_EQ(refusal_of_kind(text), "");
    EXPECT_THAT(refusal_of_kind(text, TextUse::rows), HasSubstr(what));
  }
  const std::string zeros("1\0 \0001\0:\0001\0\n\0", 12);  // UTF-16 without a mark
  EXPECT_EQ(refusal_of_kind(zeros), "");
  EXPECT_THAT(refusal_of_kind(zeros, TextUse::rows), HasSubstr("bytes that are no text"));
}

TEST(FileKind, SkippableFramesAreZstd) {
  for (char number = 0; number < 16; ++number) {
    const std::string frame = {static_cast<char>(0x50 + number), '\x2a', '\x4d', '\x18', '\0'};
    EXPECT_EQ(detect_compression(frame), Compression::zstd);
  }
  EXPECT_EQ(detect_compression("\x60\x2a\x4d\x18 "), Compression::none);
  EXPECT_EQ(detect_compression("P"), Compression::none);
}

TEST(FileKind, TextFilesComeWithoutTheirMark) {
  const TemporaryFolder folder;
  const InputKind kind{.noun = "list"};
  EXPECT_EQ(read_text_file(folder.write("marked",
                                        "\xef\xbb\xbf"
                                        "a\n"),
                           kind, 100),
            "a\n");
  EXPECT_EQ(read_file(folder.write("raw", "\xef\xbb\xbf"), kind, 100).size(), 3U);
  const test::Failure failure =
      test::failure_of([&] { read_text_file(folder.write("packed", "\x1f\x8b\x08"), kind, 100); });
  EXPECT_EQ(failure.code, ExitCode::data);
  EXPECT_THAT(failure.message, HasSubstr("packed: found a gzip stream, expected a list"));
}

}  // namespace
}  // namespace hetsgd
