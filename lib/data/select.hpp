// Some rows of a data set as a data set of its own, and the validation split.
//
// A validation split is a property of the data, not of a run. The held-out rows follow from the
// number of rows and the share alone, so that every algorithm and every seed learns from the same
// rows and is evaluated on the same others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "data/dataset.hpp"
#include "data/load_options.hpp"

namespace hetsgd {

// A data set of the rows `rows` of `data` (each below data.rows(), at least one), in this order.
// Name, task, features and labels stay. The content hash is XXH3-64 over the hash of `data` and the
// row numbers: equal rows of an equal source have equal hashes.
DatasetPtr select_rows(const Dataset& data, std::span<const Index> rows);

// The same rows as a shard: the content hash stays that of `data`, and `whole` tells its size.
DatasetPtr shard_of(const Dataset& data, std::span<const Index> rows);

// `data` without its features, and without labels too unless `labels` (see RowChoice).
Dataset outline_of(const Dataset& data, bool labels);

// The share of `tail:SHARE` (for example 1/7 or 0.1), which holds out the end of the training data.
// None for other texts. Throws Error(usage) naming --test for an invalid share.
std::optional<double> tail_share(std::string_view test);

// A division of row numbers into training rows and held-out rows.
struct RowSplit {
  std::vector<Index> kept, held_out;  // ascending; together every row once
};

// Holds out round(share * rows) of `rows` rows, drawn with a fixed seed. The held-out rows are the
// first ones of one fixed permutation, so that a smaller share is part of a larger one. Share in
// (0, 1). Throws Error(usage) naming --validation if one of the parts would be empty.
RowSplit split_rows(std::uint64_t rows, double share);
// The same by a HeldOut, which must not be `none`. An error about a tail names --test.
RowSplit split_rows(std::uint64_t rows, const HeldOut& held_out);

// Whether each of `rows` rows is held out; empty: none is.
std::vector<bool> held_out_rows(std::uint64_t rows, const HeldOut& held_out);

// The kept rows as training data, the held-out rows as test data. The reports keep path and format
// of the source and count the rows of their own part. The last block of a text before a tail cannot
// move, so that no row of --augment shift has a target in the tail's rows.
LoadedPair hold_out(const LoadedData& all, const HeldOut& held_out);

}  // namespace hetsgd
