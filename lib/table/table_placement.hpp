// Where the rows of all tables lie: all of them by one layout (placement.hpp), or with
// --hot-sharding column:c in two layouts at once, the hot rows of hybrid storage by one and the
// others by another. Paper 004 spreads hot rows by columns, so that all of a group's ranks serve a
// row that everybody asks for.
//
//   rows of a field     0 1 2 3 4 5 6 7 ...
//   hot                 x x . x . . x .       the same bits on every rank
//   hot layout          0 1   2     3         column:c, a table of the hot rows alone
//   cold layout             0   1 2   3       --sharding, a table of the others alone
//
// A row's index in its layout is its number among the field's rows of the same temperature, so
// either kind is dealt evenly, whichever rows are hot. What --sharding table and auto balance are
// the loads of whole tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "table/placement.hpp"

namespace hetsgd {

// Which of all rows are hot, and their numbers among the hot and among the cold ones. Memory: a bit
// of each row, 4 bytes of each 64 rows.
class HotSet {
 public:
  explicit HotSet(const std::vector<bool>& hot);  // by row

  bool contains(Index row) const { return (word_[row / kBits] >> (row % kBits) & 1U) != 0; }
  // Hot rows before this one; row: at most the number of all rows.
  Index before(Index row) const;
  // The way back: the row with this number among the hot or the cold ones.
  Index hot_row(Index number) const;
  Index cold_row(Index number) const;

 private:
  static constexpr Index kBits = 64;

  std::vector<std::uint64_t> word_;
  std::vector<Index> before_;  // by word: hot rows before its first
};

// Const once made; any number of threads may call it.
class TablePlacement {
 public:
  // Every row by one layout, as it is.
  TablePlacement(Placement all);  // NOLINT(google-explicit-constructor)
  // all: the rows as --sharding says of them, made with this sharding and load; hot: by row.
  // Errors: usage (--hot-sharding): as Placement.
  TablePlacement(Placement all, const Sharding& sharding, std::span<const double> load,
                 const std::vector<bool>& hot, const Sharding& hot_sharding);

  int ranks() const { return all_.ranks(); }
  std::size_t fields() const { return all_.fields(); }
  std::span<const Index> first() const { return all_.first(); }
  std::size_t width() const { return all_.width(); }
  std::size_t field_of(Index row) const { return all_.field_of(row); }
  // Where there is one layout.
  const Placement& all() const { return all_; }
  bool two_layouts() const { return split_.has_value(); }

  // --- groups and parts --------------------------------------------------------------------------
  // Groups are numbered layout by layout, those of the hot rows last. A rank belongs to one group
  // of each layout, and what it has of a layout is a part of its rows. Its places are numbered part
  // by part: the hot ones last.
  struct Part {
    std::size_t group = 0;
    Placement::Columns columns;
    std::size_t stride = 0;  // floats that it stores of a row
    Index first = 0;         // of its places
    Index rows = 0;
  };
  std::span<const Part> parts(int rank) const {
    return std::span(parts_).subspan(static_cast<std::size_t>(rank) * layouts(), layouts());
  }
  std::size_t groups() const;
  // Whether every rank has one part, of whole rows.
  bool whole_rows() const { return !split_ && all_.slices() == 1; }

  // --- rows --------------------------------------------------------------------------------------
  // A place in a group, from 0; of a rank of the group it is first + place.
  Placement::Place place_of(std::size_t field, Index row) const {
    if (!split_) return all_.place_of(field, row);
    const Index before = split_->hot_rows.before(row);
    if (!split_->hot_rows.contains(row)) return split_->cold.place_of(field, row - before);
    Placement::Place place = split_->hot.place_of(field, before);
    place.group += static_cast<std::uint32_t>(split_->cold.groups());
    return place;
  }
  // fn(rank, place of the rank, columns) of all who have a part of the row.
  template <class Fn>
  void for_each_slice(std::size_t field, Index row, const Fn& fn) const {
    const Placement::Place at = place_of(field, row);
    const std::size_t cold =
        split_ ? static_cast<std::size_t>(split_->cold.groups()) : at.group + 1;
    const std::size_t i = at.group < cold ? 0 : 1;
    const int slices = layout(i).slices();
    const int begin = static_cast<int>(at.group - i * cold) * slices;
    for (int rank = begin; rank < begin + slices; ++rank) {
      const Part& part = parts(rank)[i];
      fn(rank, part.first + at.place, part.columns);
    }
  }
  // The row at a place of a rank.
  Placement::Row row_at(int rank, Index place) const;
  // Rows of which a rank has a part, and the floats that these take, without state.
  std::size_t rows(int rank) const;
  std::size_t floats(int rank) const;

 private:
  struct Split {
    HotSet hot_rows;
    Placement cold, hot;  // of rows with numbers of their own
  };

  std::size_t layouts() const { return split_ ? 2 : 1; }
  const Placement& layout(std::size_t i) const {
    if (!split_) return all_;
    return i == 0 ? split_->cold : split_->hot;
  }
  void find_parts();

  Placement all_;
  std::optional<Split> split_;
  std::vector<Part> parts_;  // [ranks x layouts]
};

}  // namespace hetsgd
