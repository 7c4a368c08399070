#include "result/output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/output_file.hpp"
#include "core/text.hpp"
#include "core/version.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// The reason "nan", "inf" or "-inf" of a number; empty for all other values.
std::string_view reason(const json& value) {
  if (!value.is_number_float()) return "";
  const double number = value.get<double>();
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return "";
}

// Explains the numbers in `value`. Returns the reason of the number, or of the first in the list.
std::string_view explain(json& value) {
  if (const std::string_view found = reason(value); !found.empty()) {
    value = nullptr;
    return found;
  }
  std::string_view first;
  std::map<std::string, std::string_view> reasons;
  if (value.is_array()) {
    for (json& element : value) {
      if (const std::string_view found = explain(element); first.empty()) first = found;
    }
  } else if (value.is_object()) {
    for (auto& [key, member] : value.items()) {
      if (const auto found = explain(member); !found.empty()) reasons[key + "_reason"] = found;
    }
  }
  for (const auto& [key, text] : reasons) value[key] = text;
  return first;
}

bool ends_a_path(char c) {
  return std::string_view(" \t\n,;:='\"").find(c) != std::string_view::npos;
}

std::string without_folders(std::string_view text) {
  std::string result;
  std::size_t word = 0;  // where the current word starts in `result`
  for (const char c : text) {
    if (c == '/') {
      result.resize(word);
      continue;
    }
    result += c;
    if (ends_a_path(c)) word = result.size();
  }
  return result;
}

// Orders aliases by length, the longest name first, so that "a.b" is replaced before "a".
struct Longer {
  bool operator()(const std::string& a, const std::string& b) const {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  }
};
using Aliases = std::map<std::string, std::string, Longer>;

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Replaces `name` where it is a whole word.
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

// Redacts free text: known names, and absolute paths.
void redact_messages(json& value, const Aliases& aliases) {
  if (value.is_string()) {
    std::string text = value.get<std::string>();
    for (const auto& [name, alias] : aliases) replace_word(text, name, alias);
    value = without_absolute_paths(text);
  } else if (value.is_structured()) {
    for (json& member : value) redact_messages(member, aliases);
  }
}

// Collects the relative and absolute paths among the options, because messages repeat them.
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
  // "Open MPI v4.1.4, package: Open MPI user@host Distribution, ..." names the person and the host
  // that built the library.
  const std::string library = machine["mpi_library"];
  machine["mpi_library"] = library.substr(0, library.find(", package:"));
  for (json& node : machine["nodes"]) node["host"] = hosts.at(node["host"]);
  for (json& worker : result["workers"]) {
    if (worker.contains("host")) worker["host"] = hosts.at(worker["host"]);
  }
}

bool is_long_list(const json& value) {
  return value.is_array() && !value.empty() && value.front().is_structured();
}

}  // namespace

json tool_json() {
  return {{"name", "hetsgd"},
          {"version", version()},
          {"git_revision", git_revision()},
          {"git_dirty", git_dirty()}};
}

void explain_nonfinite(json& value) { explain(value); }

void escape_bytes(json& value) {
  if (value.is_string()) {
    std::string& text = value.get_ref<std::string&>();
    if (!is_utf8(text)) text = json_text(text);
  } else if (value.is_array()) {
    for (json& element : value) escape_bytes(element);
  } else if (value.is_object()) {
    std::vector<std::string> keys;
    for (auto& [key, member] : value.items()) {
      escape_bytes(member);
      if (!is_utf8(key)) keys.push_back(key);
    }
    for (const std::string& key : keys) {
      value[json_text(key)] = std::move(value[key]);
      value.erase(key);
    }
  }
}

void redact_paths(json& value) {
  if (value.is_string()) {
    value = without_folders(value.get_ref<const std::string&>());
  } else if (value.is_structured()) {
    for (json& member : value) redact_paths(member);
  }
}

void redact(json& result) {
  const Aliases hosts = aliases_of_hosts(result);
  Aliases names = hosts;
  collect_paths(result["args"], names);
  collect_paths(result["config"], names);
  // Every text with a slash is a path in these parts. In messages it need not be ("samples/s").
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

std::string result_text(const json& result) {
  std::string text = "{";
  const char* separator = "\n";
  for (const auto& [key, value] : result.items()) {
    text += fmt::format("{}{}: ", separator, json(key).dump());
    separator = ",\n";
    if (!is_long_list(value)) {
      text += value.dump();
      continue;
    }
    const char* inner = "[\n  ";
    for (const json& element : value) {
      text += inner;
      text += element.dump();
      inner = ",\n  ";
    }
    text += "]";
  }
  return text + "\n}\n";
}

void write_result(const std::string& path, const nlohmann::json& result, bool durable) {
  write_text(path, result_text(result), durable);
}

void write_text(const std::string& path, std::string_view text, bool durable) {
  OutputFile file(path, {.what = "the result", .durable = durable});
  file.write(text);
  file.commit();
}

}  // namespace hetsgd
