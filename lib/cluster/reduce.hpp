// The reduction of all_reduce and reduce_scatter over buffers of one address space, in rank order.
#pragma once

#include <cstddef>
#include <span>

#include "cluster/comm.hpp"

namespace hetsgd {

// out[j][i] = ((in[0][i] op in[1][i]) op in[2][i]) ... for every i in [begin, end) and every output
// j. Counts are in elements. An output may be one of the inputs; other overlaps are not allowed.
// Plain additions, no reassociation, no fused operations: the bits depend on nothing but the
// inputs. max and min keep the earlier rank's value on ties and when a value is not a number.
// Element byte is not reducible (checked).
//
// Cost: each input is read once from memory and each output written once; partial results stay in
// the first cache.
void reduce_in_rank_order(std::span<const void* const> in, std::span<void* const> out,
                          std::size_t begin, std::size_t end, Element element, ReduceOp op);

}  // namespace hetsgd
