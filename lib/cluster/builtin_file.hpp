// JSON files that are part of the binary (generated from the files by cluster/profiles.cmake).
// Internal to cluster/profile.cpp and cluster/network.cpp.
#pragma once

#include <string_view>
#include <vector>

namespace hetsgd {

struct BuiltinFile {
  std::string_view name;  // the file's name without .json
  std::string_view text;
};

const std::vector<BuiltinFile>& builtin_profile_files();  // cluster/profiles/*.json, by name
const std::vector<BuiltinFile>& builtin_network_files();  // cluster/networks/*.json, by name

}  // namespace hetsgd
