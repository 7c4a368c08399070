// Shard: the rows that one rank has of the embedding tables, with the state of their row rule. And
// what all ranks know alike of them: TablePlan.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "linalg/table_kernels.hpp"
#include "model/initial_rows.hpp"
#include "optimizer/row_rules.hpp"
#include "table/placement.hpp"

namespace hetsgd {

// Made once per process, before the workers, and const: the same on all ranks.
struct TablePlan {
  TableShape shape;  // D, and whether a row has a weight u of its own
  std::size_t dense_columns = 0;  // K
  Placement placement;
  TableRows initial;           // the rows that every shard makes for itself
  OptimizerOptions optimizer;  // of which the row rule is made
  bool dedup = true;           // a batch asks once for a row that it looks up several times

  std::size_t fields() const { return placement.fields(); }
  // Numbers of a sample's vector x0.
  std::size_t width() const { return dense_columns + fields() * shape.embedding; }
  // Bytes of a rank's shard, state included.
  double bytes(int rank) const;
};

// Not thread-safe: one call at a time. The device and the plan outlive it.
class Shard {
 public:
  // At the initial values. Errors: device, no memory for it.
  Shard(const TablePlan& plan, int rank, Device& device);

  int rank() const { return rank_; }
  std::size_t rows() const { return rows_; }
  double bytes() const;  // state included
  // The rank's columns of row `place`; memory of the device.
  const float* row(Index place) const { return w_.data() + place * view_.stride; }

  // out[i] <- the rank's columns of the row at place[i].
  void gather(std::span<const Index> place, float* out);
  // One update by the parts of all ranks: row rule, once for each row that occurs. learning_rate:
  // that of the run; the plan's rule knows how much of it is the tables'.
  void update(const RowParts<float>& parts, double learning_rate);
  std::uint64_t updates() const { return updates_; }

 private:
  const TablePlan& plan_;
  int rank_;
  std::size_t rows_;
  TableKernels& kernels_;
  Buffer w_, state_[2];
  ShardRows<float> view_;
  std::uint64_t updates_ = 0;
};

}  // namespace hetsgd
