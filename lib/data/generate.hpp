// Synthetic sparse multi-label data that a model can learn, with the shape of the papers' data
// sets.
//
// Model: every label belongs to a topic. A row draws its topic from a Zipf law over topics and its
// labels from a Zipf law over the topic's labels. With probability `noise` a label is instead drawn
// from any topic. So label frequencies have a head of one label per topic and a Zipf tail. Each
// feature comes from the signature of one of the row's own labels. Half of a signature are features
// of the topic, half of the label alone, all drawn from the Zipf law over features. With
// probability `noise` a feature is drawn from that law directly. The features tell the topic and
// hint at the label, and no model reaches P@1 = 1. The number of features and labels per row is
// lognormal (sigma 0.5), so that batches of one size differ in work. Values are positive with four
// decimals. Every row has (nearly) the Euclidean norm sqrt(nonzeros_per_sample), so that a typical
// value is 1; a learning rate of 1 to 3 suits the presets.
//
// Every row is a pure function of (options, part, row): the same bytes for any number of threads.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/generator.hpp"

namespace hetsgd {

struct GeneratorOptions : GeneratedRows {
  GeneratorOptions() : GeneratedRows{"generated", 2000, 500} {}

  Index features = 500;
  Index labels = 50;
  double nonzeros_per_sample = 20;  // mean
  double labels_per_sample = 2;     // mean
  double feature_zipf = 1.0;        // exponents; 0 is uniform
  double topic_zipf = 0.5;
  double label_zipf = 1.0;  // among the labels of one topic
  double noise = 0.2;       // 0: everything follows the topic; 1: nothing can be learnt
};

// `amazon670k` and `delicious200k` (table 1 of the Adaptive SGD paper) and `tiny`. `scale`
// multiplies rows, features and labels; entries per row stay, as far as they fit. Throws
// Error(usage) for other names.
GeneratorOptions generator_preset(std::string_view name, double scale = 1.0);
std::vector<std::string> generator_preset_names();

// `generate:PRESET?key=value&key=value`, with the keys scale, seed, rows_train, rows_test,
// features, labels, nonzeros, labels_per_sample, feature_zipf, topic_zipf, label_zipf, noise.
// Throws Error(usage) naming what is wrong.
GeneratorOptions parse_generator_spec(std::string_view spec);
// Throws Error(usage) for options outside the ranges of a specification.
void check_generator_options(const GeneratorOptions& options);

// Generates one part in memory, on `threads` threads (none: all cores). Throws Error(usage) for
// options out of range.
DatasetPtr generate_part(const GeneratorOptions& options, DataPart part,
                         std::optional<int> threads = {});

struct DatasetPair {
  DatasetPtr train;
  DatasetPtr test;
};

DatasetPair generate(const GeneratorOptions& options, std::optional<int> threads = {});

// The part of `generate:PRESET?...` that `options` ask for. Throws Error(usage) for a preset that
// no generator has.
ParsedData load_generated(const std::string& spec, const LoadOptions& options);

}  // namespace hetsgd
