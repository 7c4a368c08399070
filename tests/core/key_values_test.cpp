#include "core/key_values.hpp"

#include "support/failure.hpp"

namespace hetsgd {
namespace {

struct Delay {
  Seconds min{0}, max{0};
  double sigma = 1;
  std::string file = "-";
  OptionSet set;
  Delay() {
    set.add("min", min, "").range(0, 10);
    set.add("max", max, "").range(0, 10).required("50ms");
    set.add("sigma", sigma, "").above(0);
    set.add("file", file, "");
  }
};

KeyValues parsed(const std::string& text) {
  return {text, ',', "--delay " + text, "min=0ms,max=50ms", {{"most", "max"}}};
}

std::string delay_error(const std::string& text) {
  Delay delay;
  const std::string place = "--delay " + text,
                    message = test::error_of([&] { parsed(text).set(delay.set); }, ExitCode::usage);
  EXPECT_EQ(message.substr(0, place.size()), place);
  return message.substr(place.size());
}

TEST(KeyValues, AreOptionsThatReadBackAsTheSame) {
  Delay delay;
  parsed(" min = 5ms , most=1s,file=a b\xff").set(delay.set);
  EXPECT_EQ(delay.min, Seconds(0.005));
  EXPECT_EQ(delay.max, Seconds(1));
  const std::string text = key_values(delay.set, ',');
  EXPECT_EQ(text, "min=0.005s,max=1s,sigma=1,file=a b\xff");
  Delay again;
  parsed(text).set(again.set);
  EXPECT_EQ(key_values(again.set, ','), text);
}

TEST(KeyValues, TakeRemovesAKey) {
  KeyValues values = parsed("kind=x,max=1s");
  EXPECT_EQ(values.take("kind"), "x");
  EXPECT_EQ(values.take("kind"), "");
  Delay delay;
  values.set(delay.set);
  EXPECT_THROW(values.fail("max", "less"), Error);
}

TEST(KeyValues, ErrorsNamePlaceKeyFoundAndExpected) {
  EXPECT_EQ(delay_error(""), ": found \"\", expected key=value pairs such as min=0ms,max=50ms");
  EXPECT_EQ(delay_error("max"),
            ": found \"max\", expected key=value pairs such as min=0ms,max=50ms");
  EXPECT_EQ(delay_error("max=1s,most=2s"), ": found \"max\" twice, expected it once");
  EXPECT_EQ(delay_error("mix=1s"),
            ": found key \"mix\", expected min, max, sigma or file | did you mean \"min\"?");
  EXPECT_EQ(delay_error("min=1s"), ": found no max, expected one such as max=50ms");
  EXPECT_EQ(delay_error("max=11s"),
            ": max: found \"11s\", expected a time in seconds from 0 to 10");
  EXPECT_EQ(delay_error("max=1s,sigma=0"), ": sigma: found \"0\", expected a number above 0");
}

}  // namespace
}  // namespace hetsgd
