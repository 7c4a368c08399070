// Codes that vectors with a large inner product are likely to share: densified winner-take-all
// (Chen, Shrivastava, "Densified winner take all (WTA) hashing for sparse datasets", 2016, arXiv
// 1612.01834) and SimHash (Charikar 2002), as SLIDE hashes its labels (model/labels/label_tables.hpp).
//
// dwta: a permutation of the d coordinates is cut into bins of m; a code is the place of the largest
// coordinate of its bin. Of a row of weights, whose numbers have any sign:
//
//   code c = argmax over j < m of x[perm[c / D]((c mod D) m + j)],  D = floor(d / m), ties: smallest j
//
// Of a query, whose numbers are >= 0, a bin without a positive one is empty. It borrows the code of
// the first bin that is not, of c' = draw(c, k) mod C, k = 1 .. 64; where none is, the
// code is draw(c, 0) mod m: the query is blind.
//
// simhash: bit c is the sign of a sum of +-x over ceil(d / 3) coordinates.
//
// K codes make a bucket of a table, L tables have functions of their own:
//   bucket of table t = sum over j < K of code[t K + j] stride^(K-1-j)
// with stride 2^floor(ln m), by which codes overlap, as in SLIDE's program; bits: 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hetsgd {

enum class HashKind { dwta, simhash };

struct HashOptions {
  HashKind kind = HashKind::dwta;
  std::uint32_t codes = 6;    // K, per table
  std::uint32_t tables = 50;  // L
  std::uint32_t bin = 8;      // m

  std::size_t all_codes() const { return std::size_t{codes} * tables; }
  std::uint32_t stride() const;
  // Of a table: one more than the largest that codes can make. Saturates at 2^32.
  std::uint64_t buckets() const;
};

// The functions of one generation. Const after its constructor; any number of threads use it.
class LabelHash {
 public:
  // For vectors of `inputs` numbers, at least a bin's: checked.
  LabelHash(const HashOptions& options, std::size_t inputs, std::uint64_t seed,
            std::uint32_t generation);

  const HashOptions& options() const { return options_; }
  std::size_t inputs() const { return inputs_; }

  // The buckets of `count` vectors x [count x inputs]: that of vector i in table t goes to
  // bucket[i * vector_step + t * table_step]. Rows of weights:
  void rows(std::size_t count, const float* x, std::uint32_t* bucket, std::size_t vector_step,
            std::size_t table_step) const;
  // Queries; returns how many are blind.
  std::size_t queries(std::size_t count, const float* x, std::uint32_t* bucket,
                      std::size_t vector_step, std::size_t table_step) const;

  // The codes of one vector.
  std::vector<std::uint8_t> row_codes(const float* x) const;
  std::vector<std::uint8_t> query_codes(const float* x) const;

 private:
  static constexpr std::size_t kLanes = 16;
  // Codes of up to kLanes vectors, one per lane.
  struct Block {
    std::vector<float> x;            // [inputs][kLanes]
    std::vector<std::int32_t> code;  // [all codes][kLanes]
    std::vector<float> best;         // dwta: the largest number of the bin
  };
  Block make_block() const;
  void load(std::size_t count, const float* x, Block& block) const;
  void hash(Block& block) const;
  // bin: numbers that a code compares, as far as the compiler knows; 0: not at all.
  template <std::size_t bin>
  void hash_dwta(Block& block) const;
  void hash_simhash(Block& block) const;
  // Fills a query's empty bins; true: it is blind.
  bool densify(std::size_t lane, Block& block) const;
  // Of the block's vectors in a table, [kLanes].
  void buckets(const Block& block, std::size_t table, std::uint32_t* bucket) const;
  std::size_t buckets_of(std::size_t count, const float* x, bool are_queries, std::uint32_t* bucket,
                         std::size_t vector_step, std::size_t table_step) const;
  std::vector<std::uint8_t> codes_of(const float* x, bool is_query) const;

  HashOptions options_;
  std::size_t inputs_;
  std::uint64_t seed_;
  std::uint32_t generation_;
  std::int32_t stride_;               // of codes in a bucket's number, which stays below 2^24
  std::size_t width_;                 // coordinates of a code
  std::vector<std::uint32_t> place_;  // [all codes x width], of a coordinate in Block::x
  std::vector<float> sign_;           // simhash: as many
};

}  // namespace hetsgd
