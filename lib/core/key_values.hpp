// Values in one text, "kind=uniform,min=0ms,max=50ms" or "scale=0.1&seed=2". Each key is an option
// of an OptionSet, so that types, ranges and messages are those of the command line.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/options.hpp"

namespace hetsgd {

// Every Error(usage) opens with the place: `--straggler "max=5x": max: found "5x", ...`.
class KeyValues {
 public:
  using Pair = std::pair<std::string, std::string>;
  // `place` opens messages, `example` shows a good text, `also` holds other names of keys. Throws
  // Error(usage) for a part without '=', or a key that occurs twice.
  KeyValues(std::string_view text, char separator, std::string place, std::string_view example,
            const std::vector<Pair>& also = {});

  // Removes a key and returns its value; empty if the key is not there.
  std::string take(std::string_view key);
  // Sets the options that the remaining keys name. Throws Error(usage) for an unknown key (with the
  // nearest spelling), for a value that is not accepted, or if an option that requires a value has
  // none.
  void set(OptionSet& options) const;
  // Throws "PLACE: KEY: found ITS VALUE, expected EXPECTED".
  [[noreturn]] void fail(std::string_view key, std::string_view expected) const;
  const std::string& place() const { return place_; }

 private:
  std::string place_;
  std::vector<Pair> values_;  // in order
};

// Every option with its value, in the order of declaration: "min=0s,max=0.05s". Parsing the text
// gives the same values.
std::string key_values(const OptionSet& options, char separator);

}  // namespace hetsgd
