// From the label numbers of a file to the label columns of a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/load_options.hpp"

namespace hetsgd {

// Names a row's place in messages: "file.txt:17:1" or "file.hsgd: row 16".
using RowPlace = std::function<std::string(std::uint64_t row)>;

// Turns label numbers into label columns. On entry data.targets.index holds numbers (negative ones
// in two's complement), ascending in a row. On return it holds label columns, and data.task,
// data.label_count and `names` (LoadReport::label_names) are set. Without `task` the rows decide.
// The task is multilabel if a row has two labels. Else it is binary if all numbers are -1 and 1, or
// 0 and 1. Else it is multiclass, with columns in ascending order of the numbers. Throws
// Error(data) for a row that does not fit the task.
void encode_labels(DatasetBuilder& data, std::vector<std::string>& names, std::optional<Task> task,
                   const RowPlace& place);

// The names of labels that have no other names: "0", "1", ... `count` - 1.
std::vector<std::string> numbered_labels(std::size_t count);

// A multiclass data set from rows with one label each, numbered below `labels`.
ParsedData with_numbered_labels(DatasetBuilder&& data, Index labels, DataFormat format);

// Makes a test set agree with its training set: index base, task and columns (second half of
// LoadOptions). Throws Error(data) for what cannot agree; report.warnings says what was dropped.
void fit_to_training(Dataset& data, LoadReport& report, const LoadOptions& options);

}  // namespace hetsgd
