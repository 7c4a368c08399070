// Statistics of a data set, and a check of its promises: `hetsgd data info` and `data verify`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/load_options.hpp"

namespace hetsgd {

// The numbers of entries of the rows.
struct RowCounts {
  std::uint64_t total = 0;
  double mean = 0;
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};

// A field of click data.
struct FieldSummary {
  std::uint64_t categories = 0;  // rows of its table
  std::uint64_t seen = 0;        // categories that occur
  std::uint64_t distinct = 0;    // values of the training part; 0: not counted
  double missing = 0, rare = 0;  // shares of the rows
};

struct DatasetSummary {
  std::string name;
  std::string path;
  DataFormat format = DataFormat::xc;
  IndexBase index_base = IndexBase::zero;
  Task task = Task::multilabel;
  std::uint64_t content_hash = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t memory_bytes = 0;  // of all arrays
  std::uint64_t rows = 0;
  std::uint64_t feature_count = 0;
  std::uint64_t label_count = 0;
  RowCounts features;                   // nonzeros per row
  RowCounts labels;                     // labels per row; binary: 1 for a positive row
  double density = 0;                   // nonzeros / (rows * features)
  double value_min = 0, value_max = 0;  // 0 if no value is stored
  std::uint64_t features_seen = 0;      // columns that occur at least once
  std::uint64_t labels_seen = 0;
  std::uint64_t rows_without_labels = 0;
  std::uint64_t rows_without_features = 0;
  std::vector<std::string> label_names;
  std::uint64_t dense_columns = 0;
  std::vector<FieldSummary> fields;
  std::uint64_t frame_numbers = 0;                       // elements of a frame; 0: no sequences
  RowCounts frames;                                      // per row
  std::uint64_t token_kinds = 0;                         // 0: no tokens
  std::uint64_t tokens = 0, token_bytes = 0;             // of the text; bytes under the targets
  RowCounts token_targets;                               // per row
  ImageShape images;                                     // size 0: no images
  std::vector<float> channel_means, channel_deviations;  // of the images' bytes
};

DatasetSummary summarise(const Dataset& data, const LoadReport& report);

// The promises of data/dataset.hpp that `data` breaks, one sentence each, at most one per kind.
// Empty if it keeps all. Never throws and reads no array outside its bounds, whatever `data` hold.
std::vector<std::string> verify(const Dataset& data);

}  // namespace hetsgd
