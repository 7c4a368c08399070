// The Dirichlet partition: shards of equal size with different mixes of classes, as on the clients
// of federated learning.
//
// Source: Hsu, Qi, Brown 2019, "Measuring the effects of non-identical data distribution for
// federated visual classification", section 3. Worker k draws a mix of classes, q_k ~ Dir(alpha p),
// where p are the shares of the classes in the data, and then draws rows by this mix. For alpha ->
// infinity every q_k is p (iid). For alpha -> 0 q_k is one class, and the next one when that is
// used up (as slices by label are).
// Decisions: every row has one owner, so workers draw without replacement, one after the other in
// rank order. If the data have n_c rows of class c, each of them has the weight q_kc / n_c for
// worker k. With many workers the early ones follow q_k, and the last ones take what is left. With
// q_k = p all rows weigh the same, and every shard is a uniform sample. The class of a row is its
// first label, the smallest one; rows without labels are a class of their own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.hpp"

namespace hetsgd {

// All rows, worker by worker: the rows of worker k are at [begin[k], begin[k + 1]) and ascend.
// begin.front() is 0, begin.back() the number of rows. alpha in [1e-9, 1e9]. A pure function of its
// arguments.
std::vector<Index> dirichlet_shards(const Dataset& data, std::span<const std::uint64_t> begin,
                                    double alpha, std::uint64_t seed);

// The class of each row as a number below the second result, the number of classes that occur.
std::pair<std::vector<Index>, Index> first_label_classes(const Dataset& data);

}  // namespace hetsgd
