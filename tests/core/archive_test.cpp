// Archives: fields by name, saved, compared and loaded.

#include "core/archive.hpp"

#include "core/error.hpp"
#include "core/units.hpp"

namespace hetsgd::test {
namespace {

struct Inner {
  std::vector<float> numbers;
  std::optional<int> maybe;
  void fields(Archive& fields) {
    fields("numbers", numbers);
    fields("maybe", maybe);
  }
};

struct Outer {
  Inner inner;
  double common = 0;
  Seconds time{0};
  nlohmann::json events = nlohmann::json::array();
  void fields(Archive& fields) {
    fields("inner", inner);
    fields.common("common", common);
    fields("time", time);
    fields("events", events);
  }
};

TEST(Archive, LoadsWhatItHasSaved) {
  Outer saved{{{1, 2, 3}, 7}, 0.1, Seconds(2.5), {{{"type", "merge"}, {"x", 0.3}}}};
  SavedFields own, common;
  Archive to = Archive::saving(own, common);
  saved.fields(to);
  EXPECT_TRUE(own.contains("inner/numbers"));
  EXPECT_TRUE(common.contains("common"));
  EXPECT_FALSE(own.contains("common"));

  Outer loaded;
  Archive from = Archive::loading(own, common, "a file");
  loaded.fields(from);
  EXPECT_EQ(loaded.inner.numbers, saved.inner.numbers);
  EXPECT_EQ(loaded.inner.maybe, saved.inner.maybe);
  EXPECT_EQ(loaded.common, saved.common);
  EXPECT_EQ(loaded.time, saved.time);
  EXPECT_EQ(loaded.events, saved.events);
}

TEST(Archive, CommonFieldsMustBeEqual) {
  SavedFields first, second, common;
  Outer one, other;
  Archive a = Archive::saving(first, common);
  one.fields(a);
  Archive b = Archive::saving(second, common);
  other.fields(b);
  other.common = 1;
  SavedFields third;
  Archive c = Archive::saving(third, common);
  EXPECT_THROW(other.fields(c), CheckFailure);
}

TEST(Archive, NamesWhatIsMissing) {
  SavedFields own, common;
  Outer outer;
  Archive to = Archive::saving(own, common);
  outer.fields(to);
  own.erase("inner/numbers");
  Archive from = Archive::loading(own, common, "run.checkpoint: worker 1");
  try {
    outer.fields(from);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "run.checkpoint: worker 1: field inner/numbers is missing");
  }
}

TEST(Archive, RefusesAnotherSize) {
  SavedFields own, common;
  Archive to = Archive::saving(own, common);
  to.bytes(
      "w", 8, [](std::span<std::byte> all) { std::ranges::fill(all, std::byte{1}); }, nullptr);
  Archive from = Archive::loading(own, common, "a file");
  EXPECT_THROW(from.bytes("w", 4, nullptr, [](std::span<const std::byte>) {}), Error);
}

}  // namespace
}  // namespace hetsgd::test
