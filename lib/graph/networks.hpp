// The built-in networks, which the papers train, with the parameter counts of their sources.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace hetsgd {

struct NetworkInfo {
  std::string name;
  std::string summary;  // what it is, its input, and the keys that it takes
  std::string paper;    // that published it, and another one whose variant it is
};
std::vector<NetworkInfo> builtin_networks();  // sorted by name

// `name_or_path` is a built-in name with or without settings ("resnet-50",
// "resnet-50?classes=10&stride=1x1"), or the path of a network file. Throws Error(usage) for a name
// that is neither (`option` opens the message) and for a wrong key or value. Throws Error(data) for
// a broken file.
Graph find_graph(const std::string& option, const std::string& name_or_path);

}  // namespace hetsgd
