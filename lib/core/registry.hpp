// Entries that source files register under a name (algorithms, models), sorted by name.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {

// An entry has a member info.name. Entries are added before main() begins, or by plugins before
// options are declared.
template <class Entry>
class Registry {
 public:
  bool add(Entry entry) {
    const auto place = std::ranges::lower_bound(entries_, entry.info.name, {}, name_of);
    entries_.insert(place, std::move(entry));
    return true;
  }

  const std::vector<Entry>& all() const { return entries_; }

  // Throws Error(usage) for an unknown name. The message opens with the flag and lists the known
  // names, with the nearest spelling or the command that describes them.
  const Entry& find(const std::string& name, const std::string& flag,
                    const std::string& command) const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) {
      if (entry.info.name == name) return entry;
      names.push_back(entry.info.name);
    }
    const auto suggestion = nearest(name, names);
    refuse(flag, fmt::format("\"{}\"", name), fmt::format("one of {}", fmt::join(names, ", ")),
           suggestion ? fmt::format("did you mean {}?", *suggestion)
                      : fmt::format("{} describes them; a name from a plugin needs --plugin FILE",
                                    command));
  }

 private:
  static const std::string& name_of(const Entry& entry) { return entry.info.name; }

  std::vector<Entry> entries_;
};

}  // namespace hetsgd
