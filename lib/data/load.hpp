// Reading data: detection, the text readers, decompression, the binary cache and the generators
// behind one call.
//
// A training and a test file belong together: load the training data first, then the test data with
// options_for_test(), or both at once with load_pair(). Training depends on the training data
// alone: a test file takes over their index base, columns, labels, vocabulary and scale of pixels.
// If it would decide otherwise by itself, it is refused or a warning says so
// (LoadReport::warnings).
#pragma once

#include <string>
#include <vector>

#include "data/load_options.hpp"

namespace hetsgd {

// Loads `path`, which is one of
//   a text (XC, libSVM, Criteo's; plain, .gz, .bz2, .zst; told by content, not by name)
//   a text whose tokens are learnt (data/text/read_text.hpp), with the format `text`
//   images (IDX, CIFAR)
//   a converted .hsgd file
//   a pipe
//   a generator's specification such as `generate:tiny?seed=2` (data/generator.hpp)
//   the name of a fetched data set (data/manifest.hpp); `part` says which part to load
// Throws Error(data) with file:line:column, the text found and what was expected. A data set has at
// least one row, one feature and one label.
LoadedData load_dataset(const std::string& path, const LoadOptions& options);

// The options for loading the test data that belong to `train`.
LoadOptions options_for_test(const LoadOptions& options, const LoadedData& train);

// Loads both. The training data are the same whatever the test file holds.
LoadedPair load_pair(const std::string& train_path, const std::string& test_path,
                     const LoadOptions& options);

// The files that load_dataset(path) reads: the data, the labels beside images, the manifest and
// both parts of a fetched data set. Empty for generated data.
std::vector<std::string> files_of_dataset(const std::string& path);

}  // namespace hetsgd
