// Reading data files: detection, the text readers, decompression and the binary cache behind one call.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "data/dataset.hpp"

namespace hetsgd {

enum class DataFormat { detect, xc, libsvm };
enum class IndexBase { detect, zero, one };
enum class CacheMode { use, off };

struct LoadOptions {
  DataFormat format = DataFormat::detect;      // detect: an XC header is three integers alone on line 1
  IndexBase index_base = IndexBase::detect;    // libSVM: 0 if any index 0 occurs, else 1; reported
  CacheMode cache = CacheMode::use;
  std::string cache_directory;                 // empty: $HETSGD_CACHE_DIR, else $XDG_CACHE_HOME/hetsgd, else ~/.cache/hetsgd
  int threads = 0;                             // parsing threads; 0: all cores
  // A test file may show fewer features or labels than the training file: take these as the minimum.
  Index minimum_features = 0;
  Index minimum_labels = 0;
  // The label names of the training file in index order (libSVM multi-class); empty: found in the file.
  std::vector<std::string> label_names;
};

// What was found on the way; `data info` and the result's `dataset` show it.
struct LoadReport {
  std::string path;
  DataFormat format = DataFormat::xc;
  IndexBase index_base = IndexBase::zero;
  std::uint64_t file_bytes = 0;
  std::uint64_t rows_without_labels = 0;
  std::uint64_t rows_without_features = 0;
  bool from_cache = false;
  std::string cache_note;            // e.g. "damaged cache rebuilt: checksum ..."; empty: nothing to say
  std::vector<std::string> label_names;  // libSVM: the label texts in index order
  double seconds = 0;
};

struct LoadedData {
  DatasetPtr data;
  LoadReport report;
};

// Loads `path` (text, .gz, .bz2, .zst, or a converted .hsgd file). Throws Error(data) with
// file:line:column, the text found and what was expected.
LoadedData load_dataset(const std::string& path, const LoadOptions& options);

}  // namespace hetsgd
