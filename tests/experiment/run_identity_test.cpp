#include "experiment/run_identity.hpp"

#include <gtest/gtest.h>

#include "data/source.hpp"

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

// What is at its default is no part of the name, so that options that come later change none.
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

TEST(RunIdentity, NamesAnAlgorithmsOwnDefaults) {
  json name = name_of("slide");
  name["optimizer"] = "adam";
  name["learning_rate"] = 1e-4;
  name["batch_size"] = 128;
  EXPECT_EQ(identify(settings_of("slide")).hash, content_hash(name.dump()));
  EXPECT_EQ(identify(settings_of("slide", {{"optimizer", "adam"}})).hash,
            content_hash(name.dump()));
}

// Also where they have the same options at the same values.
TEST(RunIdentity, TellsModelsApart) {
  json name = name_of("ssgd");
  name["model"] = "deepfm";
  EXPECT_EQ(identify(settings_of("ssgd", {{"model", "deepfm"}})).hash, content_hash(name.dump()));
  EXPECT_NE(identify(settings_of("ssgd", {{"model", "deepfm"}})).hash,
            identify(settings_of("ssgd", {{"model", "wide_deep"}})).hash);
  EXPECT_EQ(identify(settings_of("ssgd", {{"model", "mlp"}})).hash,
            content_hash(name_of("ssgd").dump()));
}

}  // namespace
}  // namespace hetsgd
