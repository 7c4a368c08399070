// The networks that come with the program as models of the registry, and those that a specification
// or a file describes.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include "graph/networks.hpp"
#include "graph/variants.hpp"
#include "model/network/graph_model.hpp"

namespace hetsgd {

namespace {

// The built-in network that `name` is, with or without settings; none for a file.
std::optional<NetworkInfo> builtin_network(const std::string& name) {
  for (NetworkInfo& info : builtin_networks()) {
    if (info.name == name.substr(0, name.find('?'))) return std::move(info);
  }
  return std::nullopt;
}

// Whether `name` is a built-in network that leaves its vocabulary open.
bool has_default_vocabulary(const std::string& name) {
  return builtin_network(name) && name.find("vocabulary=") == std::string::npos;
}

class GraphModelFactory final : public ModelFactory {
 public:
  explicit GraphModelFactory(const std::string& name)
      : graph_(find_graph("--model", name)), any_vocabulary_(has_default_vocabulary(name)) {
    options_.conv_init = usual_filters(graph_);
  }

  double learning_rate() const override { return 0.05; }
  std::int64_t longest_row() const override {
    return graph_.reads_tokens() ? most_steps(graph_) : ModelFactory::longest_row();
  }
  void declare(OptionSet& set) override {
    options_.declare(set);
    if (graph_.reads_tokens() && !is_causal(graph_)) options_.declare_masks(set);
  }
  void validate() const override { options_.validate(); }
  std::unique_ptr<BasicModel<float>> make(const DataShape& data) const override {
    return make_graph_model<float>(graph_for(data), data, options_);
  }
  std::unique_ptr<BasicModel<double>> make_double(const DataShape& data) const override {
    return make_graph_model<double>(graph_for(data), data, options_);
  }

 private:
  // A built-in network of tokens is for those of the data, unless a key says otherwise.
  Graph graph_for(const DataShape& data) const {
    const bool chosen = !graph_.reads_tokens() || data.token_kinds == 0 || !any_vocabulary_;
    return chosen ? graph_ : with_vocabulary(graph_, tokens_for(graph_, data));
  }

  Graph graph_;
  bool any_vocabulary_;
  GraphModelOptions options_;
};

RegisteredModel registered_for_tokens(const std::string& name, const NetworkInfo& info) {
  return {{.name = name,
           .title = info.summary,
           .idea = fmt::format("A network for rows of tokens. Its vocabulary is that of the data "
                               "unless a key sets it. `hetsgd memory {}` plans its memory.",
                               name),
           .paper = info.paper,
           .objective = "softmax over the tokens at each position that has a target",
           .blocks = "tokens, positions and segments of the embed node; weight [outputs x inputs] "
                     "and bias of each linear node; scale and shift of each norm node; all dense",
           .cost = "the operations of its nodes, forward and backward, at the steps of a batch",
           .reads_tokens = true},
          [name] { return std::make_unique<GraphModelFactory>(name); }};
}

RegisteredModel registered(const std::string& name, const NetworkInfo& info) {
  if (find_graph("--model", name).reads_tokens()) return registered_for_tokens(name, info);
  return {{.name = name,
           .title = info.summary,
           .idea = fmt::format("A network for images, or with lstm nodes for sequences. `hetsgd "
                               "memory {}` plans its memory for each batch size.",
                               name),
           .paper = info.paper,
           .objective = "softmax over the labels",
           .blocks = "weight [outputs x inputs] and bias of each conv and fc node; scale and shift "
                     "of each bn node; all dense",
           .cost = "the operations of its nodes, forward and backward",
           .reads_images = true},
          [name] { return std::make_unique<GraphModelFactory>(name); }};
}

const bool networks_registered = [] {
  for (const NetworkInfo& info : builtin_networks()) {
    register_model_raw(registered(info.name, info));
  }
  return true;
}();

}  // namespace

bool is_network_name(const std::string& name) {
  return name.find('?') != std::string::npos || name.ends_with(".json") ||
         std::filesystem::is_regular_file(name);
}

const RegisteredModel& network_model(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, RegisteredModel> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  find_graph("--model", name);  // refuses what is none
  const NetworkInfo file{name, "the network of this file", "none"};
  return known.emplace(name, registered(name, builtin_network(name).value_or(file))).first->second;
}

}  // namespace hetsgd
