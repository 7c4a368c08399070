// Placement: which rank has which row of the embedding tables. It is a pure function of (field,
// row), the same on every rank, so no rank has to ask where a row lies.
//
//   --sharding  owner of index i of field f among P ranks                     TorchRec, HugeCTR
//   row         (f + i) mod P: cyclic, since the hot rows are a prefix of     row-wise, distributed
//               each table, and blocks would give all of them to one rank
//   table       the field's: largest load first to the least loaded rank      table-wise, localized
//   column:c    as row with P/c groups of c ranks; every rank of a group has  column-wise, grid
//               a slice of whole quads (4 numbers) of the row
//   auto        `table` for fields below half the mean load of a rank, which  planner
//               are placed after the others, `row` for those
//
// A group is a set of ranks that hold a row together: one rank, except with column:c. In its group
// a row has a `place`, 0, 1, 2, ... without gaps. Ranks ask each other for rows by their places.
// Rows are numbered as in CategoricalFields (data/dataset.hpp), over all fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"

namespace hetsgd {

struct Sharding {
  enum class Kind { row, table, column, automatic };
  Kind kind = Kind::row;
  int slices = 1;  // c of column:c

  std::string text() const;  // "column:2"
};
// Throws Error(usage) naming --sharding if there is no such layout, or if c is no number above 0.
Sharding parse_sharding(const std::string& text);

// Const once made; any number of threads may call it. Memory: fields x groups integers.
class Placement {
 public:
  // first: the first row of each field, then the number of rows (CategoricalFields::first). width:
  // C, elements of a row. load: work that each field causes its rank; used by table and auto.
  // Throws Error(usage) naming --sharding if c does not divide the ranks, or if a row has fewer
  // than c quads.
  Placement(std::vector<Index> first, std::size_t width, int ranks, const Sharding& sharding,
            std::span<const double> load);

  int ranks() const { return ranks_; }
  std::size_t fields() const { return first_.size() - 1; }
  std::span<const Index> first() const { return first_; }
  std::size_t width() const { return width_; }

  // --- groups and slices -------------------------------------------------------------------------
  // Rank g * slices() + s has slice s of the rows of group g.
  int slices() const { return slices_; }
  int groups() const { return ranks_ / slices_; }
  int group_of_rank(int rank) const { return rank / slices_; }
  // The columns [begin, end) of its rows that a rank has.
  struct Columns {
    std::size_t begin = 0, end = 0;
    std::size_t size() const { return end - begin; }
  };
  Columns columns(int rank) const;
  // Elements that a rank stores of a row: whole quads, 16 bytes each.
  std::size_t stride(int rank) const { return (columns(rank).size() + 3) / 4 * 4; }

  // --- rows --------------------------------------------------------------------------------------
  struct Place {
    std::uint32_t group = 0;
    Index place = 0;
  };
  // The place of row `row` (numbered over all fields) of field `field`.
  Place place_of(std::size_t field, Index row) const {
    const Index index = row - first_[field];
    const std::uint32_t whole = owner_[field];
    if (whole != kCyclic) return {whole, base(field, whole) + index};
    const auto groups = static_cast<std::uint32_t>(groups_);
    const auto group = static_cast<std::uint32_t>((field + index) % groups);
    return {group, base(field, group) + index / groups};
  }
  // Inverse of place_of(): the row at a place of a group, and its field.
  struct Row {
    std::size_t field = 0;
    Index row = 0;
  };
  Row row_at(int group, Index place) const;
  // fn(rank) of all ranks that have a slice of the rows of a group, in the order of their columns.
  template <class Fn>
  void for_each_rank(std::uint32_t group, const Fn& fn) const {
    const int begin = static_cast<int>(group) * slices_;
    for (int rank = begin; rank < begin + slices_; ++rank) fn(rank);
  }
  std::size_t field_of(Index row) const;
  // Rows of a rank, all fields together: its places are 0 .. rows(rank).
  std::size_t rows(int rank) const;
  // Floats that the rows of a rank take, without state.
  std::size_t floats(int rank) const { return rows(rank) * stride(rank); }

 private:
  static constexpr std::uint32_t kCyclic = ~std::uint32_t{0};

  void place_fields(const Sharding& sharding, std::span<const double> load);
  Index rows_of_field(std::size_t field, std::size_t group) const;
  // The first index of a group in a field that is dealt cyclically.
  std::size_t first_index(std::size_t field, std::size_t group) const;

  // The first place of a field's rows in a group. For field fields(): the number of the group's
  // rows.
  Index base(std::size_t field, std::size_t group) const {
    return base_[field * static_cast<std::size_t>(groups_) + group];
  }

  std::vector<Index> first_;
  std::size_t width_;
  int ranks_, slices_, groups_;
  std::vector<std::uint32_t> owner_;  // by field: the group of the whole table, or kCyclic
  std::vector<Index> base_;           // [(fields + 1) x groups]
};

}  // namespace hetsgd
