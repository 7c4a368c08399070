#include "data/source.hpp"
#include "experiment/sweep_plan.hpp"
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

// A run with these settings has this name.
struct Named {
  std::string algorithm;
  json settings, name;
};

TEST(RunIdentity, IsOfTheOptionsThatDifferFromTheirDefaults) {
  const json rms = {{"pert_norm", "rms"}}, full = {{"per_worker_batch", "full"}};
  const json slide = {
      {"objective", "hashed"}, {"optimizer", "adam"}, {"learning_rate", 1e-4}, {"batch_size", 128}};
  for (const auto& [algorithm, settings, name] : std::vector<Named>{
           // Options at their default are not part of the name, so that new options change no name.
           {"elastic", {}, {}},
           {"elastic", {{"gamma", 0.9}}, {}},
           {"elastic", {{"gamma", 0.5}}, {{"gamma", 0.5}}},
           {"elastic", {{"model", "mlp"}}, {}},
           // A default rate that hangs on the number of workers is: deepfm's 0.02 by two.
           {"asgd", {{"model", "deepfm"}}, {{"model", "deepfm"}, {"learning_rate", 0.01}}},
           {"asgd", {{"learning_rate", 0.5}}, {{"learning_rate", 0.5}}},
           // A name without the option is that of a run whose default was another one.
           {"adaptive", {}, rms},
           {"adaptive", rms, rms},
           {"ssgd", {}, full},
           {"ssgd", full, full},
           {"ssgd", {{"per_worker_batch", "split"}}, {}},
           // The algorithm's own defaults.
           {"slide", {}, slide},
           {"slide", {{"optimizer", "adam"}}, slide}}) {
    SCOPED_TRACE(algorithm + settings.dump());
    json expected = name_of(algorithm);
    for (const auto& [key, value] : name.items()) expected[key] = value;
    EXPECT_EQ(identify(settings_of(algorithm, settings)).hash, content_hash(expected.dump()));
  }
  EXPECT_NE(identify(settings_of("adaptive", {{"pert_norm", "l2_over_n"}})).hash,
            content_hash(name_of("adaptive").dump()));
}

// An option of the data that is not in the key would give a run the rows of another one.
TEST(DataKey, HasEveryOptionThatDecidesAboutTheRows) {
  const std::map<std::string, std::string> other = {
      {"train", "generate:tiny"}, {"test", "generate:tiny"}, {"validation", "0.5"},
      {"format", "libsvm"},       {"index_base", "1"},       {"min_frequency", "7"},
      {"hash_size", "100"},       {"image", "1x28x28"},      {"tokens", "words"},
      {"rows", "lines"},          {"block", "64"},           {"vocabulary_size", "100"},
      {"long_lines", "refuse"}};
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
