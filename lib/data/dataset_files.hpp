// Which files a data set is read from.
#pragma once

#include <string>
#include <vector>

namespace hetsgd {

// The files that load_dataset(path) reads (data/load.hpp), those of both parts of a fetched data set:
// the manifest, the data, the labels beside images. Empty for generated data.
std::vector<std::string> files_of_dataset(const std::string& path);

}  // namespace hetsgd
