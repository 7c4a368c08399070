#include "experiment/run_identity.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/source.hpp"
#include "training/run_data.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

json name_of(const std::string& algorithm) {
  return {{"algorithm", algorithm},
          {"workers", 2},
          {"epochs", 3.0},
          {"train", "generate:tiny"},
          {"test", "generate:tiny"}};
}

std::vector<Setting> settings_of(const std::string& algorithm, const json& more = {}) {
  std::vector<Setting> settings;
  const auto add = [&](const std::string& name, const json& value) {
    settings.push_back({name, value, OptionSource::flag, "--" + name});
  };
  add("algorithm", algorithm);
  add("workers", 2);
  add("epochs", 3);
  add("train", "generate:tiny");
  add("test", "generate:tiny");
  for (const auto& [name, value] : more.items()) add(name, value);
  return settings;
}

// Options at their default are not part of the name, so that new options change no name.
TEST(RunIdentity, IsOfTheOptionsThatDifferFromTheirDefaults) {
  const json name = name_of("elastic");
  EXPECT_EQ(identify(settings_of("elastic")).hash, content_hash(name.dump()));
  EXPECT_EQ(identify(settings_of("elastic", {{"gamma", 0.9}})).hash, content_hash(name.dump()));
  json other = name;
  other["gamma"] = 0.5;
  EXPECT_EQ(identify(settings_of("elastic", {{"gamma", 0.5}})).hash, content_hash(other.dump()));
}

// A name without the option is that of a run whose default was another one.
TEST(RunIdentity, TellsADefaultThatHasChanged) {
  const json before = name_of("adaptive");
  json now = before;
  now["pert_norm"] = "rms";
  EXPECT_EQ(identify(settings_of("adaptive")).hash, content_hash(now.dump()));
  EXPECT_EQ(identify(settings_of("adaptive", {{"pert_norm", "rms"}})).hash,
            content_hash(now.dump()));
  EXPECT_NE(identify(settings_of("adaptive", {{"pert_norm", "l2_over_n"}})).hash,
            content_hash(before.dump()));
}

// Runs keep their names when an algorithm's default changes: runs with the former default (split)
// do not name the option, and runs with the present default (full) still do.
TEST(RunIdentity, KeepsTheNamesFromBeforeAnAlgorithmsDefaultChanged) {
  const json split = name_of("ssgd");
  json full = split;
  full["per_worker_batch"] = "full";
  EXPECT_EQ(identify(settings_of("ssgd")).hash, content_hash(full.dump()));
  EXPECT_EQ(identify(settings_of("ssgd", {{"per_worker_batch", "full"}})).hash,
            content_hash(full.dump()));
  EXPECT_EQ(identify(settings_of("ssgd", {{"per_worker_batch", "split"}})).hash,
            content_hash(split.dump()));
}

TEST(RunIdentity, NamesAnAlgorithmsOwnDefaults) {
  json name = name_of("slide");
  name["objective"] = "hashed";
  name["optimizer"] = "adam";
  name["learning_rate"] = 1e-4;
  name["batch_size"] = 128;
  EXPECT_EQ(identify(settings_of("slide")).hash, content_hash(name.dump()));
  EXPECT_EQ(identify(settings_of("slide", {{"optimizer", "adam"}})).hash,
            content_hash(name.dump()));
}

// Also where they have the same options at the same values.
TEST(RunIdentity, TellsModelsApart) {
  json name = name_of("asgd");
  name["model"] = "deepfm";
  EXPECT_EQ(identify(settings_of("asgd", {{"model", "deepfm"}})).hash, content_hash(name.dump()));
  EXPECT_NE(identify(settings_of("asgd", {{"model", "deepfm"}})).hash,
            identify(settings_of("asgd", {{"model", "wide_deep"}})).hash);
  EXPECT_EQ(identify(settings_of("asgd", {{"model", "mlp"}})).hash,
            content_hash(name_of("asgd").dump()));
}

// An option of the data that is not in the key would give a run the rows of another one.
TEST(DataKey, HasEveryOptionThatDecidesAboutTheRows) {
  const std::map<std::string, std::string> other = {
      {"train", "generate:tiny"}, {"test", "generate:tiny"}, {"validation", "0.5"},
      {"format", "libsvm"},       {"index_base", "1"},       {"min_frequency", "7"},
      {"hash_size", "100"},       {"image", "1x28x28"}};
  // How rows are kept, and how they are dealt out and changed later.
  const std::set<std::string> others = {"cache", "order", "partition", "dirichlet_alpha",
                                        "augment"};
  TrainOptions declared;
  OptionSet all;
  declared.declare(all);
  for (const Option& option : all.options()) {
    if (option.group != "Data") continue;
    TrainOptions options;
    OptionSet set;
    options.declare(set);
    const std::string before = data_key(options);
    if (others.contains(option.name)) continue;
    ASSERT_TRUE(other.contains(option.name)) << option.name << ": is it part of data_key?";
    set.set(option.name, {other.at(option.name)}, OptionSource::flag, option.flag());
    EXPECT_NE(data_key(options), before) << option.name;
  }
}

}  // namespace
}  // namespace hetsgd
