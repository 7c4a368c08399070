#include "cluster/straggler_specification.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/straggler.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

std::vector<std::string> straggler_files(const std::string& specification) {
  constexpr std::string_view kKey = "file";  // of kind=trace, the one kind with a file
  std::vector<std::string> files;
  for (const std::string_view part : split(specification, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || trim(part.substr(0, equals)) != kKey) continue;
    files.emplace_back(trim(part.substr(equals + 1)));
  }
  return files;
}

StragglerSpecification::StragglerSpecification(const std::string& text) : text_(text) {
  for (const std::string_view part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    std::string key(trim(part.substr(0, equals)));
    if (equals == std::string_view::npos || key.empty()) {
      throw usage_error(
          "--straggler {}: found {}, expected key=value pairs such as "
          "kind=uniform,min=0ms,max=50ms",
          quote(text), quote(part));
    }
    if (key == "worker") key = "workers";
    if (!values_.emplace(key, trim(part.substr(equals + 1))).second) {
      throw usage_error("--straggler {}: found {} twice, expected it once", quote(text),
                        quote(key));
    }
  }
  const auto kind = values_.find("kind");
  if (kind == values_.end()) {
    throw usage_error("--straggler {}: found no kind, expected kind=NAME", quote(text));
  }
  kind_ = kind->second;
  values_.erase(kind);
  canonical_ = "kind=" + kind_;
}

void StragglerSpecification::fail_unknown_kind(std::span<const std::string> known) const {
  throw with_hint(usage_error("--straggler {}: found kind {}, expected {}", quote(text_),
                              quote(kind_), alternatives(known)),
                  did_you_mean(kind_, known));
}

void StragglerSpecification::declare(std::span<const StragglerKey> keys) {
  keys_ = keys;
  std::vector<std::string> names;
  for (const StragglerKey& key : keys) names.emplace_back(key.name);
  names.emplace_back("workers");
  for (const auto& [key, given] : values_) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    throw with_hint(usage_error("--straggler {}: found key {}, expected {} for kind {}",
                                quote(text_), quote(key), alternatives(names), kind_),
                    did_you_mean(key, names));
  }
  for (const StragglerKey& key : keys) {
    if (key.default_value || values_.contains(key.name)) continue;
    throw usage_error("--straggler {}: found no {}, expected one such as {}={}", quote(text_),
                      key.name, key.name, key.example);
  }
}

std::string StragglerSpecification::option(std::string_view key) const {
  return fmt::format("--straggler {}: {}", quote(text_), key);
}

std::string StragglerSpecification::value(std::string_view key) const {
  const auto given = values_.find(key);
  if (given != values_.end()) return given->second;
  const auto declared =
      std::find_if(keys_.begin(), keys_.end(), [&](const auto& k) { return k.name == key; });
  HETSGD_CHECK(declared != keys_.end() && declared->default_value);
  return declared->default_value;
}

void StragglerSpecification::fail(std::string_view key, std::string_view expected) const {
  throw usage_error("{}: found {}, expected {}", option(key), quote(value(key)), expected);
}

Seconds StragglerSpecification::seconds(std::string_view key, Seconds min) {
  const Seconds result = parse_seconds(option(key), value(key));
  if (result < min) fail(key, fmt::format("a time of at least {}", format_seconds(min)));
  if (result > kLongestStraggle)
    fail(key, fmt::format("a time of at most {:g} s", kLongestStraggle.count()));
  canonical_ += fmt::format(",{}={}s", key, result.count());
  return result;
}

double StragglerSpecification::number(std::string_view key, double min, double max) {
  const double result = parse_double(option(key), value(key), min, max);
  canonical_ += fmt::format(",{}={}", key, result);
  return result;
}

int StragglerSpecification::integer(std::string_view key, int min, int max) {
  const auto result = static_cast<int>(parse_integer(option(key), value(key), min, max));
  canonical_ += fmt::format(",{}={}", key, result);
  return result;
}

std::string StragglerSpecification::text(std::string_view key) {
  canonical_ += fmt::format(",{}={}", key, value(key));
  return value(key);
}

std::vector<int> StragglerSpecification::workers(int size) {
  const auto given = values_.find("workers");
  const std::vector<int> ranks = parse_rank_set(
      option("workers"), given == values_.end() ? "all" : std::string_view(given->second), size);
  canonical_ += ",workers=" + format_rank_set(ranks);
  return ranks;
}

}  // namespace hetsgd
