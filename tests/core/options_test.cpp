#include "core/options.hpp"

#include <cstdlib>
#include <optional>

#include "support/failure.hpp"

namespace hetsgd {
namespace {

enum class Bounds { skip, clamp };

// Every type once, with defaults that differ from zero.
struct Values {
  bool overwrite = false;
  bool cache = true;
  int workers = 4;
  std::uint64_t batch_size = 256;
  double delta = 0.1;
  Seconds max_time{90};
  std::string train = "a.txt";
  Bounds bounds = Bounds::skip;
  std::vector<double> speed{1, 0.92};
  std::vector<std::uint64_t> hidden{128};
  std::vector<std::string> straggler;

  void declare(OptionSet& set) {
    set.add("overwrite", overwrite, "replace an existing result").not_in_config();
    set.add("cache", cache, "use the binary cache");
    set.add("workers", workers, "number of workers").range(1, 100000);
    set.add("batch_size", batch_size, "largest batch").unit("samples").at_least(1);
    set.group("Adaptive");
    set.add("delta", delta, "perturbation").symbol("delta").range(0, 1);
    set.add("max_time", max_time, "budget").above(0);
    set.add("train", train, "training data");
    set.add_choice("bounds", bounds, {{"skip", Bounds::skip}, {"clamp", Bounds::clamp}}, "bounds");
    set.add("speed", speed, "relative speeds").above(0);
    set.add("hidden", hidden, "hidden units").at_least(1);
    set.add("straggler", straggler, "a straggler");
  }
};

struct OptionsTest : ::testing::Test {
  Values values;
  OptionSet set;
  OptionsTest() { values.declare(set); }

  void flag(const std::string& name, const std::vector<std::string>& texts) {
    set.set(name, texts, OptionSource::flag, set.find(name)->flag());
  }
  std::string error_of(const std::string& name, const std::vector<std::string>& texts) {
    return test::error_of([&] { flag(name, texts); }, ExitCode::usage);
  }
};

TEST_F(OptionsTest, OneNameHasThreeSpellings) {
  const Option& option = *set.find("batch_size");
  EXPECT_EQ(option.flag(), "--batch-size");
  EXPECT_EQ(option.environment(), "HETSGD_BATCH_SIZE");
  EXPECT_EQ(option.name, "batch_size");
  EXPECT_EQ(set.find("batch-size"), nullptr);
  EXPECT_THROW(set.add("batch_size", values.delta, "again"), CheckFailure);
}

TEST_F(OptionsTest, CountsOfBytesScaleByPowersOfTwo) {
  std::uint64_t bucket = 1, window = 1;
  set.add("bucket", bucket, "a size").unit("bytes");
  set.add("window", window, "a size").unit("bytes");
  flag("bucket", {"64MiB"});
  flag("window", {"10K"});
  EXPECT_EQ(bucket, 64U << 20);
  EXPECT_EQ(window, 10U << 10);
  EXPECT_EQ(error_of("bucket", {"64Mb"}),
            "--bucket: found \"64Mb\", expected a size in bytes such as 4096, 64K or 64MiB");
}

TEST_F(OptionsTest, EveryTypeParsesItsText) {
  flag("overwrite", {"true"});
  flag("cache", {"off"});
  flag("workers", {"2", "8"});  // the last counts
  flag("batch_size", {"10K"});
  flag("delta", {"2.5e-1"});
  flag("max_time", {"50ms"});
  flag("train", {"b,c.txt"});
  flag("bounds", {"clamp"});
  flag("speed", {"1,0.5", "0.25"});
  flag("hidden", {"128, 64"});
  flag("straggler", {"kind=uniform,min=0ms", "kind=pause"});
  EXPECT_TRUE(values.overwrite);
  EXPECT_FALSE(values.cache);
  EXPECT_EQ(values.workers, 8);
  EXPECT_EQ(values.batch_size, 10000u);
  EXPECT_EQ(values.delta, 0.25);
  EXPECT_EQ(values.max_time.count(), 0.05);
  EXPECT_EQ(values.train, "b,c.txt");
  EXPECT_EQ(values.bounds, Bounds::clamp);
  EXPECT_THAT(values.speed, ElementsAre(1, 0.5, 0.25));
  EXPECT_THAT(values.hidden, ElementsAre(128u, 64u));
  EXPECT_THAT(values.straggler, ElementsAre("kind=uniform,min=0ms", "kind=pause"));
}

TEST_F(OptionsTest, ErrorsNamePlaceFoundAndExpected) {
  EXPECT_EQ(error_of("delta", {"1.5"}), "--delta: found \"1.5\", expected a number from 0 to 1");
  EXPECT_EQ(error_of("workers", {"0"}),
            "--workers: found \"0\", expected a whole number from 1 to 100000");
  EXPECT_EQ(error_of("batch_size", {"0"}),
            "--batch-size: found \"0\", expected a whole number of at least 1");
  EXPECT_EQ(error_of("max_time", {"0s"}),
            "--max-time: found \"0s\", expected a time in seconds above 0");
  EXPECT_EQ(error_of("speed", {"1,0"}), "--speed: found \"0\", expected a number above 0");
  EXPECT_EQ(error_of("bounds", {"clip"}), "--bounds: found \"clip\", expected one of skip, clamp");
  EXPECT_EQ(error_of("bounds", {"clmap"}),
            "--bounds: found \"clmap\", expected one of skip, clamp | did you mean \"clamp\"?");
  for (const char* name : {"delta", "workers", "batch_size", "max_time", "cache", "speed"}) {
    EXPECT_THAT(error_of(name, {"12x"}), HasSubstr("found \"12x\", expected")) << name;
    EXPECT_THAT(error_of(name, {""}), HasSubstr("found \"\", expected")) << name;
  }
  EXPECT_THAT(error_of("delta", {"nan"}), HasSubstr("found \"nan\""));
  EXPECT_THAT(error_of("workers", {"99999999999"}), HasSubstr("found \"99999999999\""));
}

TEST_F(OptionsTest, AFailedSetLeavesValueAndSource) {
  EXPECT_NE(error_of("speed", {"3,-1"}), "");
  EXPECT_THAT(values.speed, ElementsAre(1, 0.92));
  EXPECT_EQ(set.find("speed")->source, OptionSource::default_value);
}

TEST_F(OptionsTest, StrongerSourcesWinInAnyOrder) {
  const auto from = [&](OptionSource source, const char* text) {
    set.set("batch_size", {text}, source, std::string(to_string(source)));
  };
  from(OptionSource::config_file, "1");
  EXPECT_EQ(values.batch_size, 1u);
  from(OptionSource::flag, "3");
  from(OptionSource::environment, "2");
  EXPECT_EQ(values.batch_size, 3u);
  from(OptionSource::config_file, "9");
  EXPECT_EQ(values.batch_size, 3u);
  EXPECT_EQ(set.find("batch_size")->place, "flag");
}

TEST_F(OptionsTest, EnvironmentIsReadAndUnknownNamesComeBack) {
  ::setenv("HETSGD_BATCH_SIZE", "64", 1);
  ::setenv("HETSGD_DELTA", "", 1);  // empty: not set
  ::setenv("HETSGD_BATCHSIZE", "32", 1);
  const std::vector<std::string> unknown = set.read_environment();
  ::unsetenv("HETSGD_BATCH_SIZE");
  ::unsetenv("HETSGD_DELTA");
  ::unsetenv("HETSGD_BATCHSIZE");
  EXPECT_EQ(values.batch_size, 64u);
  EXPECT_EQ(set.find("batch_size")->source, OptionSource::environment);
  EXPECT_EQ(set.find("delta")->source, OptionSource::default_value);
  EXPECT_THAT(unknown, ::testing::Contains("HETSGD_BATCHSIZE"));
  EXPECT_THAT(unknown, ::testing::Not(::testing::Contains("HETSGD_BATCH_SIZE")));
  ::setenv("HETSGD_WORKERS", "many", 1);
  EXPECT_THAT(test::usage_error_of([&] { set.read_environment(); }),
              HasSubstr("HETSGD_WORKERS: found \"many\""));
  ::unsetenv("HETSGD_WORKERS");
}

TEST_F(OptionsTest, JsonRoundTripIsExact) {
  flag("delta", {"0.30000000000000004"});
  flag("max_time", {"0.1ms"});
  flag("batch_size", {"9007199254740993"});  // not a double
  flag("speed", {"0.1,0.333333333333333314829616256247"});
  flag("straggler", {"kind=constant,factor=3"});
  flag("bounds", {"clamp"});
  flag("cache", {"false"});
  const nlohmann::json first = set.to_json();

  Values other;
  OptionSet other_set;
  other.declare(other_set);
  const nlohmann::json read_back = nlohmann::json::parse(first.dump());
  for (const auto& [key, value] : read_back.items()) {
    other_set.set_json(key, value, OptionSource::config_file, "file: " + key);
  }
  EXPECT_EQ(other_set.to_json(), first);
  EXPECT_EQ(other.delta, values.delta);
  EXPECT_EQ(other.max_time, values.max_time);
  EXPECT_EQ(other.batch_size, 9007199254740993u);
  EXPECT_EQ(other.speed, values.speed);
  EXPECT_EQ(other.bounds, Bounds::clamp);
  EXPECT_FALSE(other.cache);
}

TEST_F(OptionsTest, JsonHasTheTypesOfItsOptions) {
  const nlohmann::json json = set.to_json();
  EXPECT_FALSE(json.contains("overwrite"));  // how to report, not what to run
  EXPECT_TRUE(json.at("cache").is_boolean());
  EXPECT_TRUE(json.at("workers").is_number_integer());
  EXPECT_TRUE(json.at("batch_size").is_number_unsigned());
  EXPECT_TRUE(json.at("delta").is_number_float());
  EXPECT_EQ(json.at("max_time"), "90s");
  EXPECT_EQ(json.at("bounds"), "skip");
  EXPECT_EQ(json.at("hidden"), nlohmann::json::parse("[128]"));
}

TEST_F(OptionsTest, JsonTakesTextsAndSingleElements) {
  const auto from = [&](const char* name, const nlohmann::json& value) {
    set.set_json(name, value, OptionSource::config_file, std::string("c.json: ") + name);
  };
  from("batch_size", "10K");
  from("max_time", 30);
  from("hidden", 64);
  from("straggler", "kind=pause");
  EXPECT_EQ(values.batch_size, 10000u);
  EXPECT_EQ(values.max_time.count(), 30);
  EXPECT_THAT(values.hidden, ElementsAre(64u));
  EXPECT_THAT(values.straggler, ElementsAre("kind=pause"));
  from("hidden", nlohmann::json::array());
  EXPECT_TRUE(values.hidden.empty());
}

TEST_F(OptionsTest, JsonOfTheWrongTypeIsRefused) {
  const auto error = [&](const char* name, const nlohmann::json& value) {
    return test::usage_error_of([&] {
      set.set_json(name, value, OptionSource::config_file, std::string("c.json: ") + name);
    });
  };
  EXPECT_EQ(error("train", 5), "c.json: train: found \"5\", expected a text");
  EXPECT_EQ(error("cache", 1), "c.json: cache: found \"1\", expected true or false");
  EXPECT_EQ(error("delta", nullptr), "c.json: delta: found \"null\", expected a number");
  EXPECT_EQ(error("delta", {1, 2}), "c.json: delta: found \"[1,2]\", expected a number");
  EXPECT_EQ(error("workers", 2.5), "c.json: workers: found \"2.5\", expected a whole number");
  EXPECT_EQ(error("batch_size", -1).substr(0, 33), "c.json: batch_size: found \"-1\", e");
}

TEST_F(OptionsTest, RangesReadLikeIntervals) {
  EXPECT_EQ(set.find("delta")->range_text(), "[0, 1]");
  EXPECT_EQ(set.find("max_time")->range_text(), "(0, inf)");
  EXPECT_EQ(set.find("batch_size")->range_text(), "[1, inf)");
  EXPECT_EQ(set.find("bounds")->range_text(), "skip|clamp");
  EXPECT_EQ(set.find("train")->range_text(), "");
  EXPECT_EQ(set.find("speed")->default_text, "1,0.92");
  EXPECT_EQ(set.find("delta")->group, "Adaptive");
}

TEST_F(OptionsTest, DescribeNamesEachSource) {
  flag("batch_size", {"64"});
  const std::string text = set.describe();
  EXPECT_THAT(text, ::testing::ContainsRegex("batch_size +64 +flag --batch-size\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("delta +0.1 +default\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("straggler +\"\" +default\n"));
}

// Options with values that the program chooses unless the user sets them.
struct Choices {
  std::optional<int> workers;
  std::optional<double> alpha = 0.5;
  std::optional<std::uint64_t> rounds;
  OptionSet set;
  Choices() {
    set.add("workers", workers, "number of workers").at_least(1).or_zero();
    set.add("alpha", alpha, "share").range(0, 1);
    set.add("rounds", rounds, "rounds").at_least(1).absent("forever");
  }
  void flag(const std::string& name, const std::string& text) {
    set.set(name, {text}, OptionSource::flag, set.find(name)->flag());
  }
};

TEST(OptionalValues, NoneIsSpelledAuto) {
  Choices c;
  EXPECT_EQ(c.set.to_json(),
            nlohmann::json({{"workers", "auto"}, {"alpha", 0.5}, {"rounds", "forever"}}));
  EXPECT_EQ(c.set.find("workers")->type_text(), "INTEGER|auto");
  EXPECT_EQ(c.set.find("workers")->default_text, "auto");
  EXPECT_EQ(c.set.find("alpha")->default_text, "0.5");
  EXPECT_EQ(c.set.find("rounds")->type_text(), "COUNT|forever");
  EXPECT_EQ(c.set.find("rounds")->default_text, "forever");
  c.flag("workers", "3");
  c.flag("alpha", "auto");
  c.flag("rounds", "2K");
  EXPECT_EQ(c.workers, 3);
  EXPECT_EQ(c.alpha, std::nullopt);
  EXPECT_EQ(c.rounds, 2000U);
  Choices other;
  const nlohmann::json json = c.set.to_json();
  for (const auto& [key, value] : json.items()) {
    other.set.set_json(key, value, OptionSource::config_file, key);
  }
  EXPECT_EQ(other.set.to_json(), json);
}

TEST(OptionalValues, AWordMayMeanZero) {
  double norm = 0;
  OptionSet set;
  set.add("clip_norm", norm, "largest norm").at_least(0).zero_word("off");
  EXPECT_EQ(set.find("clip_norm")->default_text, "off");
  set.set("clip_norm", {"3"}, OptionSource::config_file, "run.json");
  EXPECT_EQ(norm, 3);
  for (const char* none : {"off", "0"}) {
    norm = 3;
    set.set("clip_norm", {none}, OptionSource::flag, "--clip-norm");
    EXPECT_EQ(norm, 0) << none;
  }
  EXPECT_EQ(set.to_json()["clip_norm"], 0);
}

// A list that may be empty has a word for it, which goes to results and comes back.
TEST(OptionalValues, AnEmptyListHasAName) {
  std::vector<std::uint64_t> hidden{400, 400};
  OptionSet set;
  set.add("hidden", hidden, "units").absent("none");
  EXPECT_EQ(set.find("hidden")->default_text, "400,400");
  EXPECT_THAT(set.find("hidden")->type_text(), ::testing::EndsWith("|none"));
  set.set("hidden", {"none"}, OptionSource::flag, "--hidden");
  EXPECT_TRUE(hidden.empty());
  EXPECT_EQ(set.to_json()["hidden"], "none");
  set.set("hidden", {"7"}, OptionSource::flag, "--hidden");
  EXPECT_THAT(hidden, ElementsAre(7));
  set.set_json("hidden", "none", OptionSource::flag, "file");
  EXPECT_TRUE(hidden.empty());
}

TEST(OptionalValues, AnEmptyListOfTextsHasANameToo) {
  std::vector<std::string> delays{"kind=constant,factor=2"};
  OptionSet set;
  set.add("delay", delays, "delays").absent("none");
  set.set("delay", {"none"}, OptionSource::flag, "--delay");
  EXPECT_TRUE(delays.empty());
  EXPECT_EQ(set.to_json()["delay"], nlohmann::json::array());
  set.set("delay", {"none", "kind=x"}, OptionSource::flag, "--delay");
  EXPECT_THAT(delays, ElementsAre("none", "kind=x"));  // whoever reads it names the wrong one
}

// Results of earlier versions say 0 where they meant that.
TEST(OptionalValues, ZeroMeansNoneWhereItDid) {
  Choices c;
  c.flag("workers", "2");
  c.set.set_json("workers", 0, OptionSource::flag, "old.json: workers");
  EXPECT_EQ(c.workers, std::nullopt);
  c.set.set_json("alpha", 0.0, OptionSource::flag, "old.json: alpha");
  EXPECT_EQ(c.alpha, 0);
  const auto message = [&](const std::string& name, const std::string& text) {
    return test::error_of([&] { c.flag(name, text); }, ExitCode::usage);
  };
  EXPECT_EQ(message("rounds", "0"),
            "--rounds: found \"0\", expected a whole number of at least 1, or forever");
  EXPECT_EQ(message("workers", "-1"),
            "--workers: found \"-1\", expected a whole number of at least 1, or auto");
}

TEST(OptionRefiner, AnOptionActsWhereItsNeedsAreMet) {
  struct {
    std::string kind = "sgd";
    double beta = 0.9, factor = 1;
    std::string charge;
  } values;
  OptionSet set;
  set.add("kind", values.kind, "");
  set.add("charge", values.charge, "");
  set.add("beta", values.beta, "").needs("kind", {"adam", "lamb"});
  set.group("Charges", {{"charge", {}}});
  set.add("factor", values.factor, "").needs("elsewhere", {"on"});
  EXPECT_EQ(set.missing_need(*set.find("kind")), nullptr);
  ASSERT_NE(set.missing_need(*set.find("beta")), nullptr);
  EXPECT_EQ(set.missing_need(*set.find("beta"))->text(), "--kind adam|lamb");
  ASSERT_NE(set.missing_need(*set.find("factor")), nullptr);
  EXPECT_EQ(set.missing_need(*set.find("factor"))->text(), "--charge");
  set.set("kind", {"lamb"}, OptionSource::flag, "--kind");
  set.set("charge", {"resnet-50"}, OptionSource::flag, "--charge");
  EXPECT_EQ(set.missing_need(*set.find("beta")), nullptr);
  // `elsewhere` is no option of this set, so nothing says that it is off.
  EXPECT_EQ(set.missing_need(*set.find("factor")), nullptr);
}

TEST(OptionRefiner, WhatWritesBelongsToOneCallAndToNoConfig) {
  std::string result, log, data;
  OptionSet set;
  set.add("output", result, "result file").writes_file("the result");
  set.add("log", log, "log file").appends_to_file("the log");
  set.add("train", data, "training file").reads_file();
  for (const char* const name : {"output", "log"}) {
    EXPECT_TRUE(set.find(name)->of_call) << name;
    EXPECT_FALSE(set.find(name)->in_config) << name;
  }
  EXPECT_FALSE(set.find("train")->of_call);
  EXPECT_TRUE(set.find("train")->in_config);
}

}  // namespace
}  // namespace hetsgd
