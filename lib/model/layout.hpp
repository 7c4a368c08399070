// What a model's parameters are: named blocks, one after the other in one flat vector.
//
//   flat vector   | block 0: rows x cols, row-major | block 1 | ...            no gaps, no padding
//   offset        0                                 blocks[1].offset          `size` at the end
//
// Merge rules, collectives and dense updates see the flat vector alone; only what must know which
// rows a batch touches looks at the blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/initial_rows.hpp"

namespace hetsgd {

// Where a batch's gradient of a block is other than zero.
enum class BlockKind {
  dense,       // everywhere
  row_sparse,  // in the rows that the batch touches, as a rule those of its features
  table,       // the same, and the rows are embeddings: --table-optimizer has their update rule
};

// One parameter tensor.
struct ParameterBlock {
  std::string name;  // "layer0.weight", "factors", ...
  std::size_t rows = 1;
  std::size_t cols = 0;
  BlockKind kind = BlockKind::dense;
  double init_std = 0;  // initial law: N(0, init_std), truncated at 2 init_std; 0: initial_value
  std::size_t zero_cols = 0;  // the last columns, which begin at zero whatever init_std is
  double initial_value = 0;   // of all elements, where init_std is 0
  bool decays = true;         // --weight-decay acts on it
  RowKeys keys = {};          // table: what stands for each row in its initial law
  std::size_t offset = 0;     // in the flat vector, in elements; set by Layout::add

  std::size_t size() const { return rows * cols; }
  bool row_sparse() const { return kind != BlockKind::dense; }
};

struct Layout {
  std::vector<ParameterBlock> blocks;
  std::size_t size = 0;    // elements in all
  double real_size = 0;    // the same where `size` has no room for it
  std::size_t sparse = 0;  // row-sparse blocks

  // Appends a block behind the last one and sets its offset. Offsets never change afterwards, since
  // they decide which random number an element begins with: the place in the vector without tables,
  // so that a model has the same dense parameters wherever its table lies.
  void add(ParameterBlock block);
};

// The initial parameters, in host memory, by each block's law. One counter-based draw per element
// of the flat vector: the same bits on every cluster and for every number of threads (none: all
// cores). An element's value depends on the seed, its place in the vector (a table's left out) and
// its block's law alone; that of a table on the seed, the row's key and its column
// (initial_rows.hpp). Instantiated for float, which rounds the double value, and double.
template <class Real>
std::vector<Real> initial_parameters(const Layout& layout, std::uint64_t seed,
                                     std::optional<int> threads = {});

}  // namespace hetsgd
