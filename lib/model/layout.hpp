// A model's parameters: named blocks, one after the other in one flat vector.
//
//   flat vector   | block 0: rows x cols, row-major | block 1 | ...            no gaps, no padding
//   offset        0                                 blocks[1].offset          `size` at the end
//
// Merge rules, collectives and dense updates see the flat vector alone. Only code that must know
// which rows a batch touches looks at the blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/initial_rows.hpp"

namespace hetsgd {

// The elements of a block where a batch's gradient may be nonzero.
enum class BlockKind {
  dense,       // everywhere
  row_sparse,  // in the rows that the batch touches, as a rule those of its features
  table,       // as row_sparse; the rows are embeddings, which --table-optimizer updates
};

// One parameter tensor.
struct ParameterBlock {
  std::string name;  // "layer0.weight", "factors", ...
  std::size_t rows = 1;
  std::size_t cols = 0;
  BlockKind kind = BlockKind::dense;
  double init_std = 0;  // initial law: N(0, init_std), truncated at 2 init_std; 0: initial_value
  std::size_t zero_cols = 0;  // the last columns, which begin at zero whatever init_std is
  double initial_value = 0;   // initial value of all elements if init_std is 0
  bool decays = true;         // --weight-decay acts on it
  RowKeys keys = {};          // table: the key of each row in its initial law
  std::size_t offset = 0;     // in the flat vector, in elements; set by Layout::add

  std::size_t size() const { return rows * cols; }
  bool row_sparse() const { return kind != BlockKind::dense; }
};

struct Layout {
  std::vector<ParameterBlock> blocks;
  std::size_t size = 0;    // elements in all
  double real_size = 0;    // elements in all, also where `size` would overflow
  std::size_t sparse = 0;  // number of row-sparse blocks

  // Appends a block behind the last one and sets its offset. Offsets never change afterwards,
  // because an element's place in the vector selects its random number. The place is counted
  // without tables, so a model has the same dense parameters wherever its table lies.
  void add(ParameterBlock block);
};

// The initial parameters, in host memory, by each block's law. One counter-based draw per element
// of the flat vector gives the same bits on every cluster and for every number of threads (none:
// all cores). An element's value depends only on the seed, its place in the vector (counted without
// tables) and its block's law. An element of a table depends on the seed, the row's key and its
// column (initial_rows.hpp). Instantiated for float, which rounds the double value, and double.
template <class Real>
std::vector<Real> initial_parameters(const Layout& layout, std::uint64_t seed,
                                     std::optional<int> threads = {});

}  // namespace hetsgd
