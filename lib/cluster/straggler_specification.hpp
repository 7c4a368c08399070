// The text form of one straggler, 'kind=uniform,min=0ms,max=50ms,workers=0-3': keys, defaults,
// errors. Internal to cluster/straggler.cpp.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.hpp"

namespace hetsgd {

// No time of a straggler is longer: beyond this, clock values lose their microseconds.
inline constexpr Seconds kLongestStraggle = Seconds(1e9);

// A key of a straggler kind. The default is a text as one would type it; null: the key must be
// given.
struct StragglerKey {
  std::string_view name;
  std::string_view example;
  const char* default_value;
};

// One parsed specification. The getters read a key or its default, check the range and note the
// value for canonical(). Errors (usage) open with `--straggler "SPEC"`.
class StragglerSpecification {
 public:
  // Reads kind and the key=value pairs, without looking at the values.
  explicit StragglerSpecification(const std::string& text);

  const std::string& kind() const { return kind_; }
  // The error for a kind that is none of `known`, with the nearest spelling.
  [[noreturn]] void fail_unknown_kind(std::span<const std::string> known) const;
  // Every given key must be one of `keys` (or workers); the getters below look up defaults there.
  void declare(std::span<const StragglerKey> keys);

  Seconds seconds(std::string_view key, Seconds min = Seconds(0));
  double number(std::string_view key, double min, double max);
  int integer(std::string_view key, int min, int max);
  std::string text(std::string_view key);
  std::vector<int> workers(int size);  // `workers` or `worker`; default: all
  // Throws: "KEY: found FOUND, expected EXPECTED".
  [[noreturn]] void fail(std::string_view key, std::string_view expected) const;

  // "kind=...,key=value,...,workers=0-3": everything read so far, defaults filled in. Parses to the
  // same.
  std::string canonical() const { return canonical_; }

 private:
  std::string option(std::string_view key) const;  // what opens a message about `key`
  std::string value(std::string_view key) const;

  std::string text_;
  std::string kind_;
  std::string canonical_;
  std::map<std::string, std::string, std::less<>> values_;
  std::span<const StragglerKey> keys_;
};

}  // namespace hetsgd
