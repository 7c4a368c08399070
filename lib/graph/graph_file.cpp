#include "graph/graph_file.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/json_fields.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

using Json = nlohmann::ordered_json;

constexpr FieldRange kExtents{1, 1000, ""};  // of kernels and strides
constexpr FieldRange kPaddings{0, 1000, ""};
constexpr FieldRange kPositive{1e-12, 1e6, ""};
constexpr FieldRange kShares{0, 1, ""};
constexpr FieldRange kSharesBelowOne{0, 0.999, ""};
constexpr FieldRange kCountsOrNone{0, 1'000'000, ""};

// An attribute of some types of nodes: its key, and how it is read and written. A value equal to
// the default is not written.
struct Attribute {
  std::string key;
  std::function<void(const JsonFields& fields, Node& node)> read;
  std::function<void(const Node& node, Json& json)> write;
  bool of_window = false;  // missing from a pool over the whole map
};

// An integer of at least 1 that a file must give.
Attribute count(const std::string& key, std::int64_t Node::*field) {
  return {key,
          [=](const JsonFields& fields, Node& node) {
            node.*field = fields.whole_number(key, kCounts, 0);
            if (node.*field == 0) fields.refuse(key, "a whole number of at least 1");
          },
          [=](const Node& node, Json& json) { json[key] = node.*field; }};
}

// The steps of the positions that an embed has learned. Only such an embed must have them.
Attribute block() {
  Attribute attribute = count("block", &Node::block);
  attribute.read = [=, read = attribute.read](const JsonFields& fields, Node& node) {
    if (node.positions == Positions::learned || fields.has("block")) read(fields, node);
  };
  attribute.write = [=, write = attribute.write](const Node& node, Json& json) {
    if (node.block > 0) write(node, json);
  };
  return attribute;
}

// The name of an earlier node; missing: none.
Attribute name_of_node(const std::string& key, std::string Node::*field) {
  return {key, [=](const JsonFields& fields, Node& node) { node.*field = fields.text(key, ""); },
          [=](const Node& node, Json& json) {
            if (!(node.*field).empty()) json[key] = node.*field;
          }};
}

template <class T>
Attribute whole(const std::string& key, T Node::*field, FieldRange range) {
  return {key,
          [=](const JsonFields& fields, Node& node) {
            node.*field = fields.whole_number(key, range, static_cast<int>(node.*field));
          },
          [=](const Node& node, Json& json) {
            if (node.*field != Node().*field) json[key] = node.*field;
          }};
}

Attribute real(const std::string& key, double Node::*field, FieldRange range, double usual) {
  return {key,
          [=](const JsonFields& fields, Node& node) {
            node.*field = fields.is_null(key) ? usual : fields.number(key, range);
          },
          [=](const Node& node, Json& json) {
            if (node.*field != usual) json[key] = node.*field;
          }};
}
Attribute real(const std::string& key, double Node::*field, FieldRange range = kPositive) {
  return real(key, field, range, Node().*field);
}

Attribute flag(const std::string& key, bool Node::*field, bool usual = false) {
  return {key,
          [=](const JsonFields& fields, Node& node) { node.*field = fields.boolean(key, usual); },
          [=](const Node& node, Json& json) {
            if (node.*field != usual) json[key] = node.*field;
          }};
}

// One word for each value of the field; the default comes first.
template <class T>
Attribute word(const std::string& key, T Node::*field, const std::vector<std::string>& words) {
  return {key,
          [=](const JsonFields& fields, Node& node) {
            node.*field = static_cast<T>(fields.choice(key, words, 0));
          },
          [=](const Node& node, Json& json) {
            if (node.*field != T{}) json[key] = words[static_cast<std::size_t>(node.*field)];
          }};
}

// The elements of a list, which must be `count` whole numbers.
std::vector<double> whole_numbers(const JsonFields& fields, const std::string& key,
                                  const FieldRange& range, std::size_t count,
                                  std::string_view expected) {
  std::vector<double> list = fields.numbers(key, range, {});
  const auto is_whole = [](double x) { return x == std::floor(x); };
  if (list.size() != count || !std::ranges::all_of(list, is_whole)) fields.refuse(key, expected);
  return list;
}

// An extent k or [k,l]. A file must give it if it cannot be 0.
Attribute extents(const std::string& key, std::array<std::int64_t, 2> Node::*field,
                  FieldRange range) {
  const bool required = range.min > 0;
  const auto read = [=](const JsonFields& fields, Node& node) {
    std::array<std::int64_t, 2>& both = node.*field;
    if (!fields.is_list(key)) {
      both[0] = both[1] = fields.whole_number(key, range, 0);
      if (required && both[0] == 0) fields.refuse(key, "a whole number, or two as [height, width]");
      return;
    }
    const auto list =
        whole_numbers(fields, key, range, 2, "a whole number, or two as [height, width]");
    both = {static_cast<std::int64_t>(list[0]), static_cast<std::int64_t>(list[1])};
  };
  const auto write = [=](const Node& node, Json& json) {
    const auto& [height, width] = node.*field;
    if (!required && height == 0 && width == 0) return;
    json[key] = height == width ? Json(height) : Json{height, width};
  };
  return {key, read, write, true};
}

Attribute of_window(Attribute attribute) {
  attribute.of_window = true;
  return attribute;
}

// The attributes of a type beside name, type and from.
const std::vector<Attribute>& attributes_of(NodeType type) {
  static const Attribute kKernel = extents("kernel", &Node::kernel, kExtents);
  static const Attribute kPadding = extents("padding", &Node::padding, kPaddings);
  static const Attribute kStride = whole("stride", &Node::stride, kExtents);
  static const Attribute kChannels = count("channels", &Node::channels);
  static const Attribute kUnits = count("units", &Node::units);
  static const std::map<NodeType, std::vector<Attribute>> kAttributes{
      {NodeType::conv,
       {kChannels, kKernel, kStride, kPadding, whole("groups", &Node::groups, kCounts),
        flag("bias", &Node::bias)}},
      {NodeType::fc, {kUnits, flag("bias", &Node::bias, true)}},
      {NodeType::pool,
       {word("kind", &Node::pool, {"max", "average"}), flag("count_padding", &Node::count_padding),
        flag("global", &Node::global), kKernel, of_window(kStride), kPadding,
        of_window(flag("ceil", &Node::ceil))}},
      {NodeType::lrn,
       {whole("size", &Node::size, kExtents), real("alpha", &Node::alpha),
        real("beta", &Node::beta), real("k", &Node::k)}},
      {NodeType::bn, {real("epsilon", &Node::epsilon)}},
      {NodeType::dropout, {real("p", &Node::p, kShares, 0.5)}},
      {NodeType::subsample, {kChannels, kStride}},
      {NodeType::lstm, {kUnits, word("output", &Node::all, {"last", "all"})}},
      {NodeType::embed,
       {kUnits, word("positions", &Node::positions, {"learned", "none"}), block(),
        whole("segments", &Node::segments, kCountsOrNone)}},
      {NodeType::linear, {kUnits, flag("bias", &Node::bias, true), real("init", &Node::init)}},
      {NodeType::norm, {real("epsilon", &Node::epsilon), flag("bias", &Node::bias, true)}},
      {NodeType::gelu, {word("form", &Node::form, {"exact", "tanh"})}},
      {NodeType::attention,
       {whole("heads", &Node::heads, kCounts), flag("causal", &Node::causal),
        real("p", &Node::p, kSharesBelowOne), flag("scores", &Node::scores)}},
      {NodeType::softmax,
       {whole("units", &Node::units, kCountsOrNone), flag("bias", &Node::bias),
        name_of_node("tied", &Node::tied), real("smoothing", &Node::smoothing, kSharesBelowOne)}}};
  static const std::vector<Attribute> kNone;
  const auto found = kAttributes.find(type);
  return found == kAttributes.end() ? kNone : found->second;
}

Shape read_input(const JsonFields& fields) {
  const auto sizes =
      whole_numbers(fields, "input", kCounts, 3, "three whole numbers, [channels, height, width]");
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
  std::vector<std::string> keys;
  for (const Attribute& attribute : attributes_of(node.type)) keys.push_back(attribute.key);
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
        refuse(fields.place("from"), quote(from), "the name of an earlier node",
               did_you_mean(from, names), ExitCode::data);
      }
      node.from.push_back(found->second);
    }
  }
  if (!places.emplace(node.name, index).second) {
    refuse(fields.place("name"), quote(node.name) + " twice", "each name once", "", ExitCode::data);
  }
  for (const Attribute& attribute : attributes_of(node.type)) {
    if (!attribute.of_window || !node.global) attribute.read(fields, node);
  }
  return node;
}

}  // namespace

Graph parse_graph(const std::string& place, std::string_view text) {
  const JsonFields fields(place, text);
  fields.allow({"name", "input", "tokens", "nodes"});
  const std::string name = fields.text("name");
  const Shape input = read_input(fields);
  try {
    Graph graph(name, input, fields.whole_number("tokens", kCountsOrNone, 0));
    std::map<std::string, int> places{{"input", 0}};
    for (const JsonFields& one : fields.objects("nodes")) {
      graph.add(read_node(one, graph.size(), places));
    }
    graph.finish();
    if (graph.parameters() == 0) {
      fields.refuse("nodes",
                    "at least one node with parameters, such as fc: there is nothing to train");
    }
    return graph;
  } catch (const Error& error) {  // errors of the graph name the node, but not the file
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
  Json json;
  json["name"] = graph.name();
  const Shape& input = graph.node(0).shape;
  json["input"] = {input.channels, input.height, input.width};
  if (graph.reads_tokens()) json["tokens"] = graph.node(0).tokens;
  for (int i = 1; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    Json one;
    one["name"] = node.name;
    one["type"] = to_string(node.type);
    if (node.from != std::vector<int>{i - 1}) {
      for (const int from : node.from) one["from"].push_back(graph.node(from).name);
    }
    for (const Attribute& attribute : attributes_of(node.type)) {
      if (!attribute.of_window || !node.global) attribute.write(node, one);
    }
    json["nodes"].push_back(std::move(one));
  }
  return json.dump(1) + "\n";
}

}  // namespace hetsgd
