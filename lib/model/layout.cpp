// The layout of parameters, and their initial values: truncated normal numbers, one 32-bit random
// word each.
#include "model/layout.hpp"

#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/parallel.hpp"

namespace hetsgd {

namespace {

// Number i of the flat vector takes word i % 4 of the block at counter i / 4.
constexpr std::size_t kWords = 4;
constexpr std::size_t kChunk = std::size_t{1} << 16;  // numbers per task

}  // namespace

void Layout::add(ParameterBlock block) {
  block.offset = size;
  size += block.size();
  real_size += static_cast<double>(block.rows) * static_cast<double>(block.cols);
  sparse += block.row_sparse() ? 1 : 0;
  blocks.push_back(std::move(block));
}

namespace {

// `begin`: where the block stands in the vector without tables.
template <class Real>
void draw_block(const ParameterBlock& block, std::size_t begin, std::uint64_t seed,
                std::optional<int> threads, Real* to) {
  const std::size_t end = begin + block.size(), drawn = block.cols - block.zero_cols;
  const std::size_t first_chunk = begin / kChunk;
  parallel_tasks(threads, (end + kChunk - 1) / kChunk - first_chunk, [&](std::size_t c) {
    std::size_t i = std::max(begin, (first_chunk + c) * kChunk);
    const std::size_t stop = std::min(end, (first_chunk + c + 1) * kChunk);
    while (i < stop) {
      const std::uint64_t counter = i / kWords;
      const RandomBlock words =
          random_block(seed, Purpose::initial_parameters, static_cast<std::uint32_t>(counter),
                       static_cast<std::uint32_t>(counter >> 32), 0);
      for (std::size_t word = i % kWords; word < kWords && i < stop; ++word, ++i) {
        if (block.zero_cols > 0 && (i - begin) % block.cols >= drawn) continue;
        const double u = (static_cast<double>(words[word]) + 0.5) * 0x1.0p-32;
        to[i - begin] = static_cast<Real>(block.init_std * truncated_normal(u));
      }
    }
  });
}

template <class Real>
void draw_table(const ParameterBlock& block, std::uint64_t seed, std::optional<int> threads,
                Real* to) {
  const TableRows law{block.keys, seed, block.init_std, block.cols - block.zero_cols};
  const std::size_t each = std::max<std::size_t>(1, kChunk / block.cols);
  parallel_tasks(threads, (block.rows + each - 1) / each, [&](std::size_t c) {
    for (std::size_t row = c * each; row < std::min(block.rows, (c + 1) * each); ++row) {
      const auto number = static_cast<std::uint32_t>(row);
      law.make(block.keys.field_of(number), number, 0, block.cols, to + row * block.cols);
    }
  });
}

}  // namespace

template <class Real>
std::vector<Real> initial_parameters(const Layout& layout, std::uint64_t seed,
                                     std::optional<int> threads) {
  std::vector<Real> parameters(layout.size);
  std::size_t begin = 0;
  for (const ParameterBlock& block : layout.blocks) {
    HETSGD_CHECK_LE(0.0, block.init_std);
    Real* const to = parameters.data() + block.offset;
    const bool table = block.kind == BlockKind::table;
    if (block.init_std > 0) {
      table ? draw_table(block, seed, threads, to) : draw_block(block, begin, seed, threads, to);
    } else if (block.initial_value != 0) {
      std::fill_n(to, block.size(), static_cast<Real>(block.initial_value));
    }
    if (!table) begin += block.size();
  }
  return parameters;
}

template std::vector<float> initial_parameters<float>(const Layout&, std::uint64_t,
                                                      std::optional<int>);
template std::vector<double> initial_parameters<double>(const Layout&, std::uint64_t,
                                                        std::optional<int>);

}  // namespace hetsgd
