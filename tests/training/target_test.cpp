// When a target counts as reached: held, not merely crossed.
#include "training/target.hpp"

#include <cstdint>
#include <optional>
#include <span>

#include "support/failure.hpp"

namespace hetsgd {
namespace {

const Target kHalf{"p1", true, 0.5};

// The values of a curve from its pattern: '+' reaches the target, '-' misses it, '?' is NaN.
std::vector<double> values_of(const std::string& pattern) {
  std::vector<double> values;
  for (const char each : pattern) {
    values.push_back(each == '+' ? 0.5 : each == '-' ? 0.4 : std::nan(""));
  }
  return values;
}

struct HoldCase {
  const char* pattern;
  int first_crossing, held;  // -1: none
  std::size_t judged_by;
  bool certain;
};

class HoldCases : public testing::TestWithParam<HoldCase> {};

TEST_P(HoldCases, AreAsCountedByHand) {
  const auto& [pattern, first_crossing, held, judged_by, certain] = GetParam();
  const Hold hold = hold_of(kHalf, values_of(pattern));
  const auto place = [](const std::optional<std::size_t>& at) { return at ? int(*at) : -1; };
  EXPECT_EQ(place(hold.first_crossing), first_crossing) << pattern;
  EXPECT_EQ(place(hold.held), held) << pattern;
  EXPECT_EQ(hold.judged_by, judged_by) << pattern;
  EXPECT_EQ(hold.certain, certain) << pattern;
}

INSTANTIATE_TEST_SUITE_P(Hold, HoldCases,
                         testing::Values(HoldCase{"", -1, -1, 0, false},         // no curve
                                         HoldCase{"-----", -1, -1, 0, false},    // never crossed
                                         HoldCase{"--+++++++", 2, 2, 5, true},   // monotone: no lag
                                         HoldCase{"-+------", 1, -1, 0, false},  // crossed once
                                         HoldCase{"-+--+-+++", 1, 4, 5,
                                                  true},  // crossed, later held
                                         HoldCase{"-+-+-+--", 1, 1, 5, true},    // 3 of 5
                                         HoldCase{"-+-+----", 1, -1, 0, false},  // 2 of 5
                                         HoldCase{"-++", 1, -1, 0, false},       // two tell nothing
                                         HoldCase{"-+++", 1, 1, 3, true},        // three of three
                                         HoldCase{"-+-+", 1, 1, 3, false},       // two of three
                                         HoldCase{"-+--+", 1, -1, 0, false},     // two of four
                                         HoldCase{"-+-++", 1, 1, 4, true},       // three of four
                                         HoldCase{"+++", 0, 0, 3, true},         // from the start
                                         HoldCase{"-+??++-", 1, 1, 5, true},     // NaN misses
                                         HoldCase{"-+???+-", 1, -1, 0, false}));

TEST(ParseTarget, SharesLieBetweenZeroAndOne) {
  const auto refusal = [](const std::string& text) {
    return test::error_of([&] { parse_target(text, "--target"); }, ExitCode::usage);
  };
  EXPECT_EQ(refusal("p1>=60"),
            "--target: found \"p1>=60\", expected p1 from 0 to 1 | shares, not percent: 0.6?");
  for (const char* text : {"accuracy>=1.01", "auc>=75", "p5<=-0.1", "p3>=1e9", "accuracy>=nan"}) {
    EXPECT_THAT(refusal(text), testing::StartsWith("--target: found ")) << text;
  }
  for (const char* text : {"p1>=0", "p1>=1", "test_loss<=60", "perplexity<=20", "train_loss<=2"}) {
    EXPECT_EQ(parse_target(text, "--target").text(), text);
  }
}

TEST(Hold, OfALossThatHasToFall) {
  const Target loss{"test_loss", false, 1};
  EXPECT_EQ(hold_of(loss, std::vector<double>{3, 1, 2, 0.5, 0.25, 4}).held, 1U);
  EXPECT_FALSE(hold_of(loss, std::vector<double>{3, 1, 2, 0.5, 2, 4}).held.has_value());
}

// Over all curves of nine evaluations: the watch is sure exactly if hold_of is, for the curve so
// far, and no later evaluation can withdraw or move the result. So a run that --stop-at-target ends
// has the time of the run that continues.
TEST(HoldWatch, IsSureWhenNothingThatFollowsMatters) {
  constexpr std::uint32_t kLength = 9;
  for (std::uint32_t bits = 0; bits < 1U << kLength; ++bits) {
    std::vector<double> values;
    for (std::uint32_t i = 0; i < kLength; ++i) values.push_back(bits >> i & 1U ? 0.6 : 0.4);
    const Hold whole = hold_of(kHalf, values);
    HoldWatch watch(kHalf);
    for (std::size_t n = 1; n <= values.size(); ++n) {
      watch.add(values[n - 1]);
      const Hold so_far = hold_of(kHalf, std::span(values).first(n));
      ASSERT_EQ(watch.held(), so_far.certain) << bits;
      if (!watch.held()) continue;
      ASSERT_EQ(so_far.held, whole.held) << bits;
      ASSERT_LE(*whole.held, n - kFewestHoldEvaluations) << bits;
    }
    ASSERT_EQ(watch.held(), whole.certain) << bits;
  }
}

}  // namespace
}  // namespace hetsgd
