// Codes that vectors with a large inner product are likely to share, as SLIDE hashes its labels
// (model/labels/label_tables.hpp). Two kinds exist: densified winner-take-all (Chen, Shrivastava,
// "Densified winner take all (WTA) hashing for sparse datasets", 2016, arXiv 1612.01834) and
// SimHash (Charikar 2002).
//
// dwta: a permutation of the d coordinates is cut into bins of m; a code is the place of the
// largest coordinate of its bin. A row of weights, whose elements have any sign, has these codes:
//
//   code c = argmax over j < m of x[perm[c / D]((c mod D) m + j)]
//   with D = floor(d / m); the smallest j wins ties
//
// The elements of a query are >= 0. A bin of a query without a positive element is empty. It
// borrows the code of the first bin c' = draw(c, k) mod C, k = 1 .. 64, that is not empty. If all
// of these are empty, the code is draw(c, 0) mod m, and the query is blind.
//
// simhash: bit c is the sign of a sum of +-x over ceil(d / 3) coordinates.
//
// K codes make a bucket number of a table; each of the L tables has functions of its own:
//   bucket of table t = sum over j < K of code[t K + j] stride^(K-1-j)
// The stride of dwta is 2^floor(ln m), so codes overlap, as in SLIDE's program. The stride of
// simhash is 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "linalg/lane_codes.hpp"

namespace hetsgd {

enum class HashKind { dwta, simhash };

struct HashOptions {
  HashKind kind = HashKind::dwta;
  std::uint32_t codes = 6;    // K, per table
  std::uint32_t tables = 50;  // L
  std::uint32_t bin = 8;      // m

  std::size_t all_codes() const { return std::size_t{codes} * tables; }
  std::uint32_t stride() const;
  // Number of buckets of a table: one more than the largest bucket number. Saturates at 2^32.
  std::uint64_t buckets() const;
};

// The functions of one generation. Const after its constructor; any number of threads use it.
class LabelHash {
 public:
  // For vectors of `inputs` elements, at least as many as a bin has (checked).
  LabelHash(const HashOptions& options, std::size_t inputs, std::uint64_t seed,
            std::uint32_t generation);

  const HashOptions& options() const { return options_; }
  std::size_t inputs() const { return inputs_; }

  // The buckets of `count` vectors x [count x inputs]. The bucket of vector i in table t goes to
  // bucket[i * vector_step + t * table_step]. rows() hashes rows of weights:
  void rows(std::size_t count, const float* x, std::uint32_t* bucket, std::size_t vector_step,
            std::size_t table_step) const;
  // queries() hashes queries and returns the number of blind ones.
  std::size_t queries(std::size_t count, const float* x, std::uint32_t* bucket,
                      std::size_t vector_step, std::size_t table_step) const;

  // The codes of one vector.
  std::vector<std::uint8_t> row_codes(const float* x) const;
  std::vector<std::uint8_t> query_codes(const float* x) const;

 private:
  static constexpr std::size_t kLanes = LaneCodes::kLanes;
  // Codes of up to kLanes vectors, one per lane.
  struct Block {
    std::vector<float> x;            // [inputs][kLanes]
    std::vector<std::int32_t> code;  // [all codes][kLanes]
    std::vector<float> best;         // dwta: the largest number of the bin
  };
  Block make_block() const;
  void load(std::size_t count, const float* x, Block& block) const;
  void hash(Block& block) const;
  // Fills a query's empty bins; returns whether the query is blind.
  bool densify(std::size_t lane, Block& block) const;
  // The bucket numbers of the block's vectors in a table, [kLanes].
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
