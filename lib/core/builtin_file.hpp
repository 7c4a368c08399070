// Files that are part of the binary (generated from the files by core/builtin_files.cmake).
#pragma once

#include <string_view>
#include <vector>

namespace hetsgd {

struct BuiltinFile {
  std::string_view name;  // the file's name without its extension
  std::string_view text;
};

const std::vector<BuiltinFile>& builtin_profile_files();   // lib/cluster/profiles, by name
const std::vector<BuiltinFile>& builtin_network_files();   // lib/cluster/networks
const std::vector<BuiltinFile>& builtin_manifest_files();  // datasets
const std::vector<BuiltinFile>& builtin_charge_files();    // lib/training/charges

}  // namespace hetsgd
