#include "graph/graph_file.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/json_fields.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

constexpr FieldRange kExtents{1, 1000, ""};  // of kernels and strides
constexpr FieldRange kPaddings{0, 1000, ""};
constexpr FieldRange kPositive{1e-12, 1e6, ""};

std::int64_t required_count(const JsonFields& fields, const std::string& key) {
  const std::int64_t value = fields.whole_number(key, kCounts, 0);
  if (value == 0) fields.refuse(key, "a whole number of at least 1");
  return value;
}

// k or [k,l].
std::array<std::int64_t, 2> extents(const JsonFields& fields, const std::string& key,
                                    const FieldRange& range, std::int64_t default_value) {
  if (!fields.is_list(key)) {
    const std::int64_t one = fields.whole_number(key, range, static_cast<int>(default_value));
    return {one, one};
  }
  const std::vector<double> both = fields.numbers(key, range, {});
  if (both.size() != 2 || both[0] != std::floor(both[0]) || both[1] != std::floor(both[1])) {
    fields.refuse(key, "a whole number or two of them, [height, width]");
  }
  return {static_cast<std::int64_t>(both[0]), static_cast<std::int64_t>(both[1])};
}

// The keys of a type beside name, type and from.
std::vector<std::string> attribute_names(NodeType type) {
  switch (type) {
    case NodeType::conv:
      return {"channels", "kernel", "stride", "padding", "groups", "bias"};
    case NodeType::fc:
      return {"units", "bias"};
    case NodeType::pool:
      return {"kind", "kernel", "stride", "padding", "ceil", "global", "count_padding"};
    case NodeType::lrn:
      return {"size", "alpha", "beta", "k"};
    case NodeType::bn:
      return {"epsilon"};
    case NodeType::dropout:
      return {"p"};
    case NodeType::subsample:
      return {"channels", "stride"};
    case NodeType::lstm:
      return {"units", "output"};
    default:
      return {};
  }
}

void read_windows(const JsonFields& fields, Node& node) {
  node.kernel = extents(fields, "kernel", kExtents, 0);
  if (node.kernel[0] == 0) fields.refuse("kernel", "a whole number or two, [height, width]");
  node.stride = fields.whole_number("stride", kExtents, 1);
  node.padding = extents(fields, "padding", kPaddings, 0);
}

void read_attributes(const JsonFields& fields, Node& node) {
  static const std::vector<std::string> kPoolKinds{"max", "average"};
  static const std::vector<std::string> kOutputs{"last", "all"};
  switch (node.type) {
    case NodeType::conv:
      node.channels = required_count(fields, "channels");
      read_windows(fields, node);
      node.groups = fields.whole_number("groups", kCounts, 1);
      node.bias = fields.boolean("bias", false);
      return;
    case NodeType::fc:
      node.units = required_count(fields, "units");
      node.bias = fields.boolean("bias", true);
      return;
    case NodeType::pool:
      node.pool = static_cast<PoolKind>(fields.choice("kind", kPoolKinds, 0));
      node.global = fields.boolean("global", false);
      node.count_padding = fields.boolean("count_padding", false);
      if (node.global) return;
      read_windows(fields, node);
      node.ceil = fields.boolean("ceil", false);
      return;
    case NodeType::lrn:
      node.size = fields.whole_number("size", kExtents, node.size);
      if (!fields.is_null("alpha")) node.alpha = fields.number("alpha", kPositive);
      if (!fields.is_null("beta")) node.beta = fields.number("beta", kPositive);
      if (!fields.is_null("k")) node.k = fields.number("k", kPositive);
      return;
    case NodeType::bn:
      if (!fields.is_null("epsilon")) node.epsilon = fields.number("epsilon", kPositive);
      return;
    case NodeType::dropout:
      if (!fields.is_null("p")) node.p = fields.number("p", {0, 1, ""});
      return;
    case NodeType::subsample:
      node.channels = required_count(fields, "channels");
      node.stride = fields.whole_number("stride", kExtents, 1);
      return;
    case NodeType::lstm:
      node.units = required_count(fields, "units");
      node.all = fields.choice("output", kOutputs, 0) == 1;
      return;
    default:
      return;
  }
}

Shape read_input(const JsonFields& fields) {
  const std::vector<double> sizes = fields.numbers("input", kCounts, {});
  if (sizes.size() != 3 || std::any_of(sizes.begin(), sizes.end(),
                                       [](double size) { return size != std::floor(size); })) {
    fields.refuse("input", "three whole numbers, [channels, height, width]");
  }
  return {static_cast<std::int64_t>(sizes[0]), static_cast<std::int64_t>(sizes[1]),
          static_cast<std::int64_t>(sizes[2])};
}

Node read_node(const JsonFields& fields, int index, std::map<std::string, int>& places) {
  static const std::vector<std::string> kTypes = node_type_names();
  Node node;
  const std::size_t type = fields.choice("type", kTypes, kTypes.size());
  if (type == 0 || type == kTypes.size()) {
    fields.refuse("type", "a node's type: " + alternatives(std::span(kTypes).subspan(1)));
  }
  node.type = static_cast<NodeType>(type);
  node.name = fields.text("name", fmt::format("{}_{}", kTypes[type], index));
  std::vector<std::string> keys = attribute_names(node.type);
  keys.insert(keys.end(), {"name", "type", "from"});
  fields.allow(keys);
  if (fields.is_null("from")) {
    node.from = {index - 1};
  } else {
    for (const std::string& from : fields.texts("from")) {
      const auto found = places.find(from);
      if (found == places.end()) {
        std::vector<std::string> names;
        for (const auto& place : places) names.push_back(place.first);
        refuse(fields.place("from"), quote(from), "a node that stands before",
               did_you_mean(from, names), ExitCode::data);
      }
      node.from.push_back(found->second);
    }
  }
  if (!places.emplace(node.name, index).second) {
    refuse(fields.place("name"), quote(node.name) + " twice", "names that differ", "",
           ExitCode::data);
  }
  read_attributes(fields, node);
  return node;
}

nlohmann::ordered_json extents_json(const std::array<std::int64_t, 2>& both) {
  if (both[0] == both[1]) return both[0];
  return {both[0], both[1]};
}

void write_windows(const Node& node, nlohmann::ordered_json& json) {
  json["kernel"] = extents_json(node.kernel);
  if (node.stride != 1) json["stride"] = node.stride;
  if (node.padding != Node().padding) json["padding"] = extents_json(node.padding);
}

void write_attributes(const Node& node, nlohmann::ordered_json& json) {
  const Node usual;
  switch (node.type) {
    case NodeType::conv:
      json["channels"] = node.channels;
      write_windows(node, json);
      if (node.groups != 1) json["groups"] = node.groups;
      if (node.bias) json["bias"] = true;
      return;
    case NodeType::fc:
      json["units"] = node.units;
      if (!node.bias) json["bias"] = false;
      return;
    case NodeType::pool:
      if (node.pool == PoolKind::average) json["kind"] = "average";
      if (node.count_padding) json["count_padding"] = true;
      if (node.global) {
        json["global"] = true;
      } else {
        write_windows(node, json);
        if (node.ceil) json["ceil"] = true;
      }
      return;
    case NodeType::lrn:
      if (node.size != usual.size) json["size"] = node.size;
      if (node.alpha != usual.alpha) json["alpha"] = node.alpha;
      if (node.beta != usual.beta) json["beta"] = node.beta;
      if (node.k != usual.k) json["k"] = node.k;
      return;
    case NodeType::bn:
      if (node.epsilon != usual.epsilon) json["epsilon"] = node.epsilon;
      return;
    case NodeType::dropout:
      if (node.p != usual.p) json["p"] = node.p;
      return;
    case NodeType::subsample:
      json["channels"] = node.channels;
      if (node.stride != 1) json["stride"] = node.stride;
      return;
    case NodeType::lstm:
      json["units"] = node.units;
      if (node.all) json["output"] = "all";
      return;
    default:
      return;
  }
}

}  // namespace

Graph parse_graph(const std::string& place, std::string_view text) {
  static const std::vector<std::string> kKeys{"name", "input", "nodes"};
  const JsonFields fields(place, text);
  fields.allow(kKeys);
  const std::string name = fields.text("name");
  const Shape input = read_input(fields);
  try {
    Graph graph(name, input);
    std::map<std::string, int> places{{"input", 0}};
    for (const JsonFields& one : fields.objects("nodes")) {
      graph.add(read_node(one, graph.size(), places));
    }
    graph.finish();
    return graph;
  } catch (const Error& error) {  // those of the graph name the node, but not the file
    const std::string message = error.what();
    throw message.starts_with(place)
        ? error
        : Error(error.code(), fmt::format("{}: {}", place, message), error.hint());
  }
}

Graph read_graph(const std::string& path) {
  constexpr std::uint64_t kMostGraphBytes = std::uint64_t{1} << 26;
  return parse_graph(path, read_text_file(path, {.noun = "network file"}, kMostGraphBytes));
}

std::string to_json_text(const Graph& graph) {
  nlohmann::ordered_json json;
  json["name"] = graph.name();
  const Shape& input = graph.node(0).shape;
  json["input"] = {input.channels, input.height, input.width};
  for (int i = 1; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    nlohmann::ordered_json one;
    one["name"] = node.name;
    one["type"] = to_string(node.type);
    if (node.from != std::vector<int>{i - 1}) {
      for (const int from : node.from) one["from"].push_back(graph.node(from).name);
    }
    write_attributes(node, one);
    json["nodes"].push_back(std::move(one));
  }
  return json.dump(1) + "\n";
}

}  // namespace hetsgd
