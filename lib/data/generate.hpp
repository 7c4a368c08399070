// Synthetic sparse multi-label data that a model can learn, with the shape of the papers' data
// sets.
//
// Model: label ranks follow a Zipf law and belong to topics (rank mod topics). A row draws a topic
// by the popularity of its labels, then its labels from this topic; a share `noise` comes from all
// labels instead. Each feature comes from the signature of one of the row's labels, which is made
// of features of its topic and of its own, a share `noise` from the Zipf law over all features. So
// the features tell the topic and hint at the label, and no model reaches P@1 = 1. The number of
// features and labels per row is lognormal (sigma 0.5), which makes batches of one size differ in
// work. Values are positive, have four decimals, and every row has (nearly) the Euclidean norm 4,
// whatever its number of features.
//
// Every row is a pure function of (options, part, row): the same bytes for any number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/load.hpp"

namespace hetsgd {

struct GeneratorOptions {
  std::string name = "generated";
  std::uint64_t rows_train = 2000;
  std::uint64_t rows_test = 500;
  Index features = 500;
  Index labels = 50;
  double nonzeros_per_sample = 20;  // mean
  double labels_per_sample = 2;     // mean
  double feature_zipf = 1.0;        // exponents; 0 is uniform
  double label_zipf = 1.0;
  double noise = 0.2;  // 0: everything follows the topic; 1: nothing can be learnt
  std::uint64_t seed = 1;
};

// `amazon670k` and `delicious200k` (table 1 of the Adaptive SGD paper) and `tiny`. `scale`
// multiplies rows, features and labels; entries per row stay, as far as they fit. Throws
// Error(usage) for other names.
GeneratorOptions generator_preset(std::string_view name, double scale = 1.0);
std::vector<std::string> generator_preset_names();

inline constexpr std::string_view kGeneratorPrefix = "generate:";
inline bool is_generator_spec(std::string_view path) { return path.starts_with(kGeneratorPrefix); }

// `generate:PRESET?key=value&key=value`, with the keys scale, seed, rows_train, rows_test,
// features, labels, nonzeros, labels_per_sample, feature_zipf, label_zipf, noise. Throws
// Error(usage) naming what is wrong.
GeneratorOptions parse_generator_spec(std::string_view spec);

// One part in memory, on `threads` threads (0: all cores). Throws Error(usage) for options out of
// range.
DatasetPtr generate_part(const GeneratorOptions& options, DataPart part, int threads = 0);

struct DatasetPair {
  DatasetPtr train;
  DatasetPtr test;
};

DatasetPair generate(const GeneratorOptions& options, int threads = 0);

}  // namespace hetsgd
