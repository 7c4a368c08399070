// hetsgd train: one run of one algorithm.
#include "train_session.hpp"

namespace hetsgd {
namespace {

class Train final : public SessionCommand {
 public:
  CommandInfo info() const override {
    return {
        .name = "train",
        .summary = "train a model with one algorithm and write the result",
        .examples = {
            "hetsgd train --train generate:tiny --test generate:tiny --epochs 3 -o tiny.json",
            "hetsgd train --train train.txt --test test.txt --algorithm adaptive --workers 4 \\\n"
            "      --speed 1,0.92,0.84,0.76 --epochs 20 --target 'p1>=0.6' -o adaptive.json",
            "hetsgd train --cluster threads --devices cpu:1,cpu:1 --config adaptive.json -o "
            "real.json"}};
  }

  void declare(OptionSet& set) override {
    set.group("Configuration");
    set.add("config", config_path_,
            "JSON file with options, or a result whose options are repeated. Flags and environment "
            "variables override them.")
        .reads_file()
        .not_in_config();
    session_.declare(set);
  }

  void settle(OptionSet& set) override {
    session_.read_config(set, config_, config_path_);
    read_environment(set);
  }

  int run(OptionSet& set, const std::vector<std::string>&) override {
    std::vector<std::string> arguments = {"train"};
    arguments.insert(arguments.end(), arguments_.begin(), arguments_.end());
    return session_.run(set, arguments);
  }

 private:
  void read_first(OptionSet& first, const std::vector<std::string>& arguments) override {
    arguments_ = arguments;
    first.add("config", config_path_, "");
    config_ = hetsgd::read_first(first, config_path_, arguments);
  }

  std::vector<std::string> arguments_;
  std::string config_path_;
  nlohmann::json config_ = nlohmann::json::object();
};

}  // namespace

const bool train_registered = register_command<Train>(CommandGroup::run, 1);

}  // namespace hetsgd
