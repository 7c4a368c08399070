#include "result/redact.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "result/result.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// Names that stand for others, the longest first: "a.b" before "a".
struct Longer {
  bool operator()(const std::string& a, const std::string& b) const {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  }
};
using Aliases = std::map<std::string, std::string, Longer>;

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Where `name` stands as a word of its own.
void replace_word(std::string& text, const std::string& name, const std::string& alias) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
    const std::size_t end = at + name.size();
    const bool alone =
        (at == 0 || !in_word(text[at - 1])) && (end == text.size() || !in_word(text[end]));
    if (alone) text.replace(at, name.size(), alias);
    at = alone ? at + alias.size() : end;
  }
}

// "/home/me/a.txt:3: bad" becomes "a.txt:3: bad"; "samples/s" is no path.
std::string without_absolute_paths(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool begins = result.empty() || std::string_view(" \t\n\"'(=,:;").find(result.back()) !=
                                              std::string_view::npos;
    if (text[at] != '/' || !begins) {
      result += text[at];
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" \t\n\"'),:;", at), text.size());
    const std::string_view path = text.substr(at, end - at);
    result += path.substr(path.rfind('/') + 1);
    at = end - 1;
  }
  return result;
}

// Free text: the names that are known, and paths that show themselves.
void redact_messages(json& value, const Aliases& aliases) {
  if (value.is_string()) {
    std::string text = value.get<std::string>();
    for (const auto& [name, alias] : aliases) replace_word(text, name, alias);
    value = without_absolute_paths(text);
  } else if (value.is_structured()) {
    for (json& member : value) redact_messages(member, aliases);
  }
}

// The relative and absolute paths among options, as messages repeat them.
void collect_paths(const json& value, Aliases& aliases) {
  if (value.is_structured()) {
    for (const json& member : value) collect_paths(member, aliases);
  }
  if (!value.is_string()) return;
  const std::string& text = value.get_ref<const std::string&>();
  const std::string path = text.substr(text.rfind('=') + 1);  // --train=a/b, kind=trace,file=a/b
  const std::size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash + 1 < path.size()) {
    aliases.emplace(path, path.substr(slash + 1));
  }
}

Aliases aliases_of_hosts(const json& result) {
  Aliases aliases;
  const json::json_pointer place("/cluster/machine/nodes");
  const auto add = [&](const json& host, std::size_t number) {
    if (host.is_string()) aliases.emplace(host.get<std::string>(), fmt::format("host {}", number));
  };
  if (result.contains(place)) {
    for (std::size_t i = 0; i < result[place].size(); ++i) add(result[place][i]["host"], i);
  }
  add(result["environment"]["hostname"], 0);
  return aliases;
}

void redact_machine(json& result, const Aliases& hosts) {
  json& machine = result["cluster"]["machine"];
  // "Open MPI v4.1.4, package: Open MPI user@host Distribution, ...": who built it, and where.
  const std::string library = machine["mpi_library"];
  machine["mpi_library"] = library.substr(0, library.find(", package:"));
  for (json& node : machine["nodes"]) node["host"] = hosts.at(node["host"]);
  for (json& worker : result["workers"]) {
    if (worker.contains("host")) worker["host"] = hosts.at(worker["host"]);
  }
}

}  // namespace

void redact(json& result) {
  const Aliases hosts = aliases_of_hosts(result);
  Aliases names = hosts;
  collect_paths(result["args"], names);
  collect_paths(result["config"], names);
  // What is an option's value; "samples/s" in a message is no path.
  for (const char* key :
       {"args", "config", "plugins", "dataset", "stragglers", "cluster", "tuning"}) {
    redact_paths(result[key]);
  }
  redact_paths(result["environment"]["variables"]);
  for (const char* key : {"args", "warnings", "status_reason", "events", "wall"}) {
    redact_messages(result[key], names);
  }
  redact_messages(result["environment"]["variables"], hosts);
  if (result["cluster"].contains("machine")) redact_machine(result, hosts);
  result["environment"]["hostname"] = nullptr;
}

}  // namespace hetsgd
