#include "core/byte_stream.hpp"

#include "core/units.hpp"
#include "support/failure.hpp"

namespace hetsgd {
namespace {

using test::error_of;

enum class Colour { red, green };

struct Plain {
  std::int32_t a = 0;
  double b = 0;
  bool operator==(const Plain&) const = default;
};

struct Whole {
  bool flag = false;
  Colour colour = Colour::red;
  Plain plain;
  Seconds time{0};
  std::string name;
  std::vector<float> numbers;
  std::vector<std::string> texts;
  std::vector<bool> bits;
  std::optional<Plain> one, none;
  std::optional<std::string> text;
  bool operator==(const Whole&) const = default;
  static constexpr auto members() {
    using W = Whole;
    return std::tuple(&W::flag, &W::colour, &W::plain, &W::time, &W::name, &W::numbers, &W::texts,
                      &W::bits, &W::one, &W::none, &W::text);
  }
};

Whole example() {
  return {.flag = true,
          .colour = Colour::green,
          .plain = {-7, 0.1},
          .time = Seconds(1.5),
          .name = std::string("a\0b\xff", 4),
          .numbers = {1, std::numeric_limits<float>::infinity(), -0.0F},
          .texts = {"", "x", "yz"},
          .bits = {true, false, true},
          .one = Plain{1, 2},
          .none = {},
          .text = ""};
}

TEST(ByteStream, EveryTypeComesBack) {
  EXPECT_EQ(from_bytes<Whole>(to_bytes(example()), "all"), example());
  EXPECT_EQ(from_bytes<Whole>(to_bytes(Whole{}), "nothing"), Whole{});
  const std::vector<int> numbers{1, 2, 3};
  EXPECT_EQ(from_bytes<std::vector<int>>(to_bytes(std::span(numbers)), "a span"), numbers);
  const std::vector<std::byte> two = to_bytes(std::string_view("text"), 7);
  ByteReader in(two, "two");
  EXPECT_EQ(in.get<std::string>(), "text");
  EXPECT_EQ(in.get<int>(), 7);
  in.end();
}

// Files are read by other builds: these bytes stay.
TEST(ByteStream, TheFormIsFixed) {
  const std::vector<std::byte> bytes = to_bytes(std::uint16_t{0x0201}, true, std::string("ab"),
                                                std::optional<char>('c'), std::optional<char>());
  EXPECT_EQ(text_of(bytes), std::string_view("\1\2\1\2\0\0\0\0\0\0\0ab\1c\0", 16));
}

TEST(ByteStream, EveryCutAndEveryGrowthIsAnError) {
  std::vector<std::byte> bytes = to_bytes(example());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(error_of([&] { from_bytes<Whole>(std::span(bytes).first(size), "a thing"); }),
                HasSubstr("a thing: cut off after "))
        << size;
  }
  bytes.push_back({});
  EXPECT_EQ(error_of([&] { from_bytes<Whole>(bytes, "a thing"); }),
            fmt::format("a thing: found {} bytes, expected {}", bytes.size(), bytes.size() - 1));
}

// Bytes that never were a Whole give one or an error, and memory for what is there at most.
TEST(ByteStream, AnyBytesAreAValueOrAnError) {
  const std::vector<std::byte> good = to_bytes(example());
  for (std::size_t place = 0; place < good.size(); ++place) {
    for (const int value : {0, 1, 2, 0x7F, 0xFF}) {
      std::vector<std::byte> bad = good;
      bad[place] = static_cast<std::byte>(value);
      try {
        from_bytes<Whole>(bad, "a thing");
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::data);
      }
    }
  }
  EXPECT_EQ(error_of([] { from_bytes<bool>(to_bytes(char{2}), "a flag"); }),
            "a flag: found 2 at byte 0, expected 0 or 1");
  const auto huge = to_bytes(std::numeric_limits<std::uint64_t>::max());
  EXPECT_THAT(error_of([&] { from_bytes<std::vector<double>>(huge, "a list"); }),
              HasSubstr("a list: cut off after 8 bytes: found 0 more, expected "
                        "18446744073709551615 elements of 8"));
  EXPECT_THAT(error_of([&] { from_bytes<std::vector<std::string>>(huge, "a list"); }),
              HasSubstr("a list: cut off"));
}

constexpr SealKind kKind = {.magic = "TESTFILE", .version = 3, .noun = "test file", .old = "again"};

TEST(Seal, TellsKindVersionLengthAndDamage) {
  const std::vector<std::byte> content = to_bytes(std::string("content"));
  const std::vector<std::byte> good = sealed(kKind, content);
  EXPECT_EQ(good.size(), kSealBytes + content.size());
  EXPECT_EQ(sealed_length(kKind, good, "f"), content.size());
  EXPECT_EQ(text_of(unsealed(kKind, good, "f")), text_of(content));

  for (std::size_t place = 0; place < good.size(); ++place) {
    std::vector<std::byte> bad = good;
    bad[place] ^= std::byte{1};
    EXPECT_THAT(error_of([&] { unsealed(kKind, bad, "f"); }), HasSubstr("f: ")) << place;
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(error_of([&] { unsealed(kKind, std::span(good).first(size), "f"); }),
                testing::AnyOf("f: not a test file: its header is missing or cut off",
                               HasSubstr("f: cut off or grown: ")));
  }
  SealKind newer = kKind;
  newer.version = 4;
  EXPECT_EQ(error_of([&] { unsealed(newer, good, "f"); }),
            "f: found format version 3, expected version 4 | again");
}

}  // namespace
}  // namespace hetsgd
