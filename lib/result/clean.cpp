// The passes over a finished document: numbers and bytes that JSON cannot hold, and paths that
// nobody should read.
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/bytes.hpp"
#include "result/result.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;

// "nan", "inf", "-inf"; empty for everything else.
std::string_view reason(const json& value) {
  if (!value.is_number_float()) return "";
  const double number = value.get<double>();
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  return "";
}

// Nulls the numbers of a list; the reason of the first of them.
std::string_view explain_list(json& list) {
  std::string_view first;
  for (json& element : list) {
    std::string_view found;
    if (element.is_array()) {
      found = explain_list(element);
    } else if (element.is_object()) {
      explain_nonfinite(element);
    } else if (found = reason(element); !found.empty()) {
      element = nullptr;
    }
    if (first.empty()) first = found;
  }
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

}  // namespace

void explain_nonfinite(json& value) {
  if (value.is_array()) {
    explain_list(value);
    return;
  }
  if (!value.is_object()) return;
  std::vector<std::pair<std::string, std::string>> reasons;
  for (auto& [key, member] : value.items()) {
    std::string_view found;
    if (member.is_array()) {
      found = explain_list(member);
    } else if (member.is_object()) {
      explain_nonfinite(member);
    } else if (found = reason(member); !found.empty()) {
      member = nullptr;
    }
    if (!found.empty()) reasons.emplace_back(key + "_reason", found);
  }
  for (auto& [key, text] : reasons) value[key] = text;
}

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

}  // namespace hetsgd
