// The options of reading data and what is found, for all readers, generators and caches behind
// load_dataset() (data/load.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/text/text_rules.hpp"
#include "data/vocabulary.hpp"

namespace hetsgd {

// `hsgd` (a converted file) and `generated` are only reported; both are recognised by themselves.
enum class DataFormat {
  detect,
  xc,
  libsvm,
  hsgd,
  generated,
  criteo,
  idx,
  cifar10,
  cifar100,
  text,  // never detected, because any file is text
};
enum class IndexBase { detect, zero, one };
enum class CacheMode { use, off };
enum class DataPart { train, test };

// The rows of a data set to load, for a process that needs no others. The result keeps the order
// asked for; its content hash, counts and report are those of the whole (Dataset::whole).
struct RowChoice {
  // The row numbers to load, at least one. `outline` is the data set without features, and without
  // labels too unless `needs_labels`.
  std::function<std::vector<Index>(const Dataset& outline)> rows;  // empty: all rows
  bool needs_labels = false;
};

// Rows of one file that are evaluated on and not learnt from: round(share * rows) of them, drawn
// with a fixed seed, or the last ones.
struct HeldOut {
  enum class Which { none, random, tail };
  Which which = Which::none;
  double share = 0;  // in (0, 1)
};

struct LoadOptions {
  // detect: an XC header is three integers alone on line 1, Criteo's text has 39 tabs there; images
  // are told by data/image_files.hpp
  DataFormat format = DataFormat::detect;
  // libSVM: 0 if any index 0 occurs, else 1; reported. The training data decide for all files.
  IndexBase index_base = IndexBase::detect;
  CacheMode cache = CacheMode::use;
  std::string cache_directory;      // empty: see default_cache_directory()
  std::optional<int> threads;       // parsing threads; none: all cores
  DataPart part = DataPart::train;  // which part of `generate:...` is meant
  // The rows of the training and of the test data to load. The binary forms (a cached text, an
  // .hsgd file) are then read in parts; everything else is loaded whole and cut down.
  RowChoice train_rows, test_rows;
  // Click data and words: how their vocabulary is made, and which rows it must ignore. A converted
  // file contains its vocabulary.
  VocabularyRules vocabulary;
  HeldOut held_out;
  TextRules text;  // format text: its tokens and rows
  // Treat each sparse row as an image of this shape (scatter_to_images).
  std::optional<ImageShape> image;

  // The demands of the training data on a test file, set by options_for_test(). The test data have
  // as many columns of features and of labels. The other columns of the file are dropped: features
  // are ignored, and labels are never hit, so a row with no others is a miss. An XC file whose
  // header promises more than multi-label training data is an error, since such files come in pairs
  // with equal headers.
  Index trained_features = 0;
  Index trained_labels = 0;
  std::optional<Task> task;  // the task to read the labels as; none: found in the file
  // Whether the user has stated index_base. If not, it is that of the training data, and a file
  // that counts otherwise by its format, or since it was converted, is an error.
  bool base_is_stated = false;
  std::optional<float> full_scale;  // see LoadReport
  // The label texts of the training data in index order (one label per row, or kinds of tokens);
  // empty: found in the file. In a binary task and among characters another text is an error.
  std::vector<std::string> label_names;
  // Click data: the data set whose vocabulary is used; null: the data's own.
  DatasetPtr vocabulary_of;
  DatasetPtr images_of;  // images: the data set whose statistics are used; null: the data's own
};

// Findings of loading, shown by `data info` and the result's `dataset`.
struct LoadReport {
  std::string path = {};
  DataFormat format = DataFormat::xc;
  IndexBase index_base = IndexBase::zero;
  std::uint64_t file_bytes = 0;  // size of the file on disk (0 for generated data)
  std::uint64_t rows_without_labels = 0;
  std::uint64_t rows_without_features = 0;
  float full_scale = 1;  // sparse rows as images: the value of the brightest pixel, 1 or 255
  // A sentence for each thing that a test file would decide otherwise by itself, or has lost.
  std::vector<std::string> warnings = {};
  bool from_cache = false;
  std::string cache_note = {};  // e.g. "damaged cache rebuilt: ..."; empty: no note
  // Tasks binary and multiclass: the label texts in index order (binary: negative, positive). Empty
  // for multilabel, where a label is its own index. Task tokens: the kinds of tokens.
  std::vector<std::string> label_names = {};
  TextCounts text = {};  // format text
  // Click data: how many values of each field the training part has. Empty if they were not
  // counted.
  std::vector<std::uint64_t> distinct_values = {};
  double seconds = 0;
};

// The result of a reader or a generator: a data set before it is fitted to the training data.
struct ParsedData {
  Dataset data;
  LoadReport report;
};

// A data set that is ready for use, and the findings of loading it.
struct LoadedData {
  DatasetPtr data;
  LoadReport report;
};

// Training and test data that belong together.
struct LoadedPair {
  LoadedData train;
  LoadedData test;
};

// $HETSGD_CACHE_DIR, else $XDG_CACHE_HOME/hetsgd, else ~/.cache/hetsgd; empty if none of them is
// set.
std::string default_cache_directory();

std::string_view to_string(DataFormat format);
std::string_view to_string(IndexBase base);  // "0", "1", "detect"
std::string_view to_string(Task task);

}  // namespace hetsgd
