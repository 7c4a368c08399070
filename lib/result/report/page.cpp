// Assembles the page from its parts (report/page) and the data, in one file.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/builtin_file.hpp"
#include "core/error.hpp"
#include "core/sha256.hpp"
#include "result/report.hpp"

namespace hetsgd {
namespace report {
namespace {

using nlohmann::json;

// The parts in order: tools for drawing come before the parts that use them.
const std::vector<std::string>& script_parts() {
  static const std::vector<std::string> parts = {"base",   "scale",    "frame",   "lines", "bars",
                                                 "tables", "sections", "details", "main"};
  return parts;
}

std::string_view page_file(const std::string& name) {
  const std::vector<BuiltinFile>& files = builtin_page_files();
  const auto found =
      std::ranges::find_if(files, [&](const BuiltinFile& file) { return file.name == name; });
  HETSGD_CHECK(found != files.end());
  return found->text;
}

// One function encloses all scripts, so that their names are not global.
std::string script() {
  std::string text = "\"use strict\";\n(() => {\n";
  for (const std::string& part : script_parts()) text += page_file(part);
  return text + "})();\n";
}

int digit_of(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

// Base64 (RFC 4648, section 4) of the bytes that a text of hexadecimal digits gives.
std::string base64_of_hex(std::string_view hex) {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : hex) {
    bits = bits << 4 | static_cast<std::uint32_t>(digit_of(c));
    count += 4;
    if (count < 6) continue;
    count -= 6;
    text += kLetters[bits >> count & 63U];
  }
  if (count > 0) text += kLetters[bits << (6 - count) & 63U];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

// The source by which a Content-Security-Policy allows a script or style.
std::string hash_source(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return "'sha256-" + base64_of_hex(hash.value()) + "'";
}

std::string escaped_html(std::string_view text) {
  static const std::map<char, std::string> kEntities = {
      {'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string result;
  for (const char c : text) {
    const auto entity = kEntities.find(c);
    result += entity == kEntities.end() ? std::string(1, c) : entity->second;
  }
  return result;
}

// JSON that cannot end the script element around it. "<" occurs only inside of texts, where \u003c
// means the same.
std::string embedded(const json& data) {
  std::string result;
  for (const char c : data.dump()) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

// Replaces each {{name}} of the template. Inserted text is not expanded again.
std::string filled(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string result;
  while (!text.empty()) {
    const std::size_t open = text.find("{{");
    result += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find("}}", open);
    HETSGD_CHECK(close != std::string_view::npos);
    result += values.at(std::string(text.substr(open + 2, close - open - 2)));
    text.remove_prefix(close + 2);
  }
  return result;
}

}  // namespace
}  // namespace report

std::string report_page(const nlohmann::json& data) {
  const std::string script = report::script();
  const std::string style(report::page_file("style"));
  return report::filled(report::page_file("page"),
                        {{"title", report::escaped_html(data["title"].get<std::string>())},
                         {"style", style},
                         {"style_source", report::hash_source(style)},
                         {"script", script},
                         {"script_source", report::hash_source(script)},
                         {"data", report::embedded(data)}});
}

}  // namespace hetsgd
