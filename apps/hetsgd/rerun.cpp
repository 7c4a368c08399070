// hetsgd rerun repeats the run of a result file.
#include "core/error.hpp"
#include "core/text.hpp"
#include "experiment/configured_run.hpp"
#include "result/validate.hpp"
#include "train_session.hpp"

namespace hetsgd {
namespace {

class Rerun final : public SessionCommand {
 public:
  CommandInfo info() const override {
    return {.name = "rerun",
            .summary = "repeat the run of a result file; flags replace its options",
            .examples = {"hetsgd rerun result.json -o again.json",
                         "hetsgd rerun result.json --seed 2 -o seed2.json"},
            .operands = "RESULT"};
  }

  void declare(OptionSet& set) override { session_.declare(set); }

  // The environment is ignored, because it would change the result.
  void settle(OptionSet& set) override {
    if (path_.empty()) {
      refuse("rerun", "an option first", "the result file",
             "for example hetsgd rerun result.json -o again.json");
    }
    session_.read_config(set, config_, path_);
  }

  int run(OptionSet& set, const std::vector<std::string>&) override {
    const bool same_rate = set.find("learning_rate")->source != OptionSource::flag &&
                           set.find("algorithm")->source != OptionSource::flag;
    if (same_rate) session_.set_tuning(tuning_);
    if (set.find("checkpoint_at")->source != OptionSource::flag) {
      session_.repeat_segments(segments_);
    }
    std::vector<std::string> arguments = called_as_;
    for (const Option& option : set.options()) {
      if (!option.in_config || option.source != OptionSource::flag) continue;
      const nlohmann::json value = option.to_json();
      arguments.push_back(
          option.flag() + "=" +
          (value.is_string() ? bytes_of_json(value.get<std::string>()) : value.dump()));
    }
    return session_.run(set, arguments);
  }

 private:
  // Reads the result file, which has these options and the plugins.
  void read_first(OptionSet& first, const std::vector<std::string>& arguments) override {
    scan_arguments(first, arguments);
    if (arguments.empty() || arguments.front().starts_with('-')) return;
    path_ = arguments.front();
    const nlohmann::json result = read_result(path_);
    config_ = config_of_result(result, path_);
    for (const nlohmann::json& segment : result.value("segments", nlohmann::json::array())) {
      segments_[segment["samples_count"]] = segment["reason"];
    }
    for (const std::string argument : result["args"]) {
      called_as_.push_back(bytes_of_json(argument));
    }
    tuning_ = result.value("tuning", nlohmann::json(nullptr));
    load_plugins_again(first, result, path_);
    for (const char* key : {"algorithm", "model"}) {
      first.set_json(key, config_[key], OptionSource::config_file, path_);
    }
  }

  std::string path_;
  nlohmann::json config_ = nlohmann::json::object();
  std::vector<std::string> called_as_;
  nlohmann::json tuning_ = nullptr;
  std::map<std::uint64_t, std::string> segments_;  // reasons by samples
};

}  // namespace

const bool rerun_registered = register_command<Rerun>(CommandGroup::run, 2);

}  // namespace hetsgd
