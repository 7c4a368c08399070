// Copies of rows from all ranks, for a process that has only its own shard: rank 0 of several,
// which measures the model.
#pragma once

#include <span>
#include <vector>

#include "table/shard.hpp"

namespace hetsgd {

// Memory: 4 bytes for each row of all tables, C numbers for each row that is gathered.
class GatheredRows final : public RowSource {
 public:
  // rows: those that may be read, distinct. The plan outlives it.
  GatheredRows(const TablePlan& plan, std::span<const Index> rows);

  // What `rank` is asked for: places in its shard. It answers with its columns of these rows, in
  // their order and without gaps.
  std::vector<Index> places(int rank) const;
  // The answer. Errors: check, another length.
  void take(int rank, std::span<const float> columns);

  const TablePlan& plan() const override { return plan_; }
  // A row of those above, when all ranks have answered.
  void read(std::size_t field, Index row, float* to) const override;

 private:
  struct Group {
    std::vector<Index> places;
    std::vector<Index> numbers;  // of these rows in rows_
  };

  const Group& group_of(int rank) const {
    return group_[static_cast<std::size_t>(plan_.placement.group_of_rank(rank))];
  }

  const TablePlan& plan_;
  std::vector<Group> group_;
  std::vector<Index> number_;  // by row
  std::vector<float> rows_;    // [gathered x C]
};

}  // namespace hetsgd
