#include "graph/networks.hpp"

#include <algorithm>
#include <filesystem>

#include "core/error.hpp"
#include "core/key_values.hpp"
#include "core/text.hpp"
#include "graph/graph_file.hpp"
#include "graph/networks/builder.hpp"

namespace hetsgd {
namespace networks {

int Builder::put(Node node, int from) {
  if (node.from.empty()) node.from = {from < 0 ? last() : from};
  node.name = fmt::format("{}_{}", to_string(node.type), graph_.size());
  return graph_.add(std::move(node));
}

int Builder::conv(std::int64_t channels, std::array<std::int64_t, 2> kernel, std::int64_t stride,
                  std::array<std::int64_t, 2> padding, bool bias, int from) {
  return put({.type = NodeType::conv,
              .channels = channels,
              .kernel = kernel,
              .stride = stride,
              .padding = padding,
              .bias = bias},
             from);
}

int Builder::pool(PoolKind kind, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                  int from) {
  return put({.type = NodeType::pool,
              .kernel = {kernel, kernel},
              .stride = stride,
              .padding = {padding, padding},
              .pool = kind},
             from);
}

Graph Builder::finish(Node softmax) {
  put(std::move(softmax));
  graph_.finish();
  return std::move(graph_);
}

namespace {

std::vector<Network> all_networks() {
  std::vector<Network> list;
  add_lenets(list);
  add_alexnet_and_vggs(list);
  add_resnets(list);
  add_inception(list);
  add_lstm(list);
  add_gpts(list);
  add_berts(list);
  std::ranges::sort(list, {}, [](const Network& network) { return network.info.name; });
  return list;
}

}  // namespace
}  // namespace networks

std::vector<NetworkInfo> builtin_networks() {
  std::vector<NetworkInfo> infos;
  for (const auto& network : networks::all_networks()) infos.push_back(network.info);
  return infos;
}

Graph find_graph(const std::string& option, const std::string& name_or_path) {
  const std::size_t mark = name_or_path.find('?');
  const std::string name = name_or_path.substr(0, mark);
  std::vector<std::string> names;
  for (networks::Network& network : networks::all_networks()) {
    names.push_back(network.info.name);
    if (names.back() != name) continue;
    OptionSet set;
    network.declare(set, network.settings);
    if (mark != std::string::npos) {
      KeyValues(name_or_path.substr(mark + 1), '&', fmt::format("{} {}", option, name_or_path),
                "classes=10")
          .set(set);
    }
    return network.build(name_or_path, network.settings);
  }
  if (std::filesystem::exists(name_or_path)) return read_graph(name_or_path);
  refuse(option, quote(name_or_path), alternatives(names) + " or a network file",
         did_you_mean(name, names));
}

}  // namespace hetsgd
