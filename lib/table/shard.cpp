#include "table/shard.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/parallel.hpp"

namespace hetsgd {

double TablePlan::bytes(int rank) const {
  return sizeof(float) * static_cast<double>(placement.floats(rank)) *
         static_cast<double>(1 + row_states(optimizer));
}

double TablePlan::device_bytes(int rank) const {
  const std::size_t rows = placement.rows(rank);
  if (rows == 0) return 0;
  return bytes(rank) * static_cast<double>(tiers.on_device(rows)) / static_cast<double>(rows);
}

void InitialRows::read(std::size_t field, Index row, float* to) const {
  plan_.initial.make(static_cast<std::uint32_t>(field), row, 0, plan_.placement.width(), to);
}

Shard::Shard(const TablePlan& plan, int rank, Device& device, std::optional<int> threads)
    : plan_(plan),
      rank_(rank),
      rows_(plan.placement.rows(rank)),
      hot_(hot_rows(plan.tiers, plan.placement, rank)) {
  constexpr std::size_t kChunk = 4096;  // rows per task
  const Placement& placement = plan.placement;
  const Placement::Columns columns = placement.columns(rank);
  view_.width = columns.size();
  view_.stride = placement.stride(rank);
  w_.reset(device, placement.floats(rank));
  view_.w = w_.data();
  for (std::size_t i = 0; i < row_states(plan.optimizer); ++i) {
    state_[i].reset(device, placement.floats(rank));
    view_.state[i] = state_[i].data();
  }
  parallel_tasks(threads, (rows_ + kChunk - 1) / kChunk, [&](std::size_t chunk) {
    const std::size_t begin = chunk * kChunk, end = std::min(rows_, begin + kChunk);
    for (std::size_t place = begin; place < end; ++place) {
      const auto [field, row] =
          placement.row_at(placement.group_of_rank(rank), static_cast<Index>(place));
      float* const to = view_.w + place * view_.stride;
      plan.initial.make(static_cast<std::uint32_t>(field), row, columns.begin, columns.end, to);
      std::fill(to + view_.width, to + view_.stride, 0.0F);
    }
    for (float* state : view_.state) {
      if (state) std::fill(state + begin * view_.stride, state + end * view_.stride, 0.0F);
    }
  });
}

std::size_t Shard::on_device(std::span<const Index> places) const {
  if (plan_.tiers.storage != TableStorage::hybrid) return plan_.tiers.on_device(places.size());
  return static_cast<std::size_t>(
      std::ranges::count_if(places, [&](Index place) { return bool{hot_[place]}; }));
}

std::vector<float> Shard::read(std::span<const Index> places) const {
  std::vector<float> rows(places.size() * view_.width);
  float* to = rows.data();
  for (const Index place : places) to = std::copy_n(row(place), view_.width, to);
  return rows;
}

void Shard::gather(TableKernels& kernels, std::span<const Index> place, float* out) const {
  kernels.gather(view_, place.size(), place.data(), out);
}

void Shard::update(TableKernels& kernels, const RowParts<float>& parts, double learning_rate) {
  kernels.update(view_, parts, row_rule(plan_.optimizer, learning_rate, ++updates_));
}

TableSet::TableSet(TablePlan plan, std::span<const int> ranks, double machine_bytes,
                   std::optional<int> threads)
    : plan_(std::move(plan)), device_(make_cpu_device<float>(1)) {
  const Placement& placement = plan_.placement;
  double bytes = 0;
  for (const int rank : ranks) bytes += plan_.bytes(rank);
  if (bytes > machine_bytes) {
    throw with_hint(
        usage_error("--tables: found sharded with {} rows of {} numbers over {} workers, whose "
                    "shards of this machine need {} of memory, and it has {}",
                    placement.first().back(), placement.width(), placement.ranks(),
                    format_bytes(bytes), format_bytes(machine_bytes)),
        "more machines, a smaller --embedding-dim, a larger --min-frequency or --hash-size need "
        "less of each");
  }
  shards_.resize(static_cast<std::size_t>(placement.ranks()));
  for (const int rank : ranks) {
    shards_[static_cast<std::size_t>(rank)] =
        std::make_unique<Shard>(plan_, rank, *device_, threads);
  }
}

Shard& TableSet::shard(int rank) {
  HETSGD_CHECK(shards_[static_cast<std::size_t>(rank)] != nullptr);
  return *shards_[static_cast<std::size_t>(rank)];
}

void TableSet::read(std::size_t field, Index row, float* to) const {
  const Placement& placement = plan_.placement;
  const auto [group, place] = placement.place_of(field, row);
  for (int slice = 0; slice < placement.slices(); ++slice) {
    const int rank = static_cast<int>(group) * placement.slices() + slice;
    const Placement::Columns columns = placement.columns(rank);
    const float* const from = shards_[static_cast<std::size_t>(rank)]->row(place);
    std::copy(from, from + columns.size(), to + columns.begin);
  }
}

void read_embedded(const RowSource& rows, const Batch& batch, Device& device, Embedded& embedded) {
  const TablePlan& plan = rows.plan();
  const Dataset& data = batch.data();
  const std::size_t D = plan.shape.embedding;
  embedded.reset(device, batch.size(), plan.width());
  std::vector<float> row(plan.placement.width());
  float* x = embedded.x.data();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    x = std::ranges::copy(data.dense.row(batch.rows()[i]), x).out;
    float own = 0;
    const auto categories = data.fields.row(batch.rows()[i]);
    for (std::size_t field = 0; field < categories.size(); ++field) {
      rows.read(field, categories[field], row.data());
      x = std::copy_n(row.data(), D, x);
      if (plan.shape.extra > 0) own += row[D];
    }
    embedded.u.data()[i] = own;
  }
}

std::vector<float> read_all(const RowSource& rows) {
  const Placement& placement = rows.plan().placement;
  const std::size_t C = placement.width();
  std::vector<float> all(placement.first().back() * C);
  for (std::size_t field = 0; field < placement.fields(); ++field) {
    for (Index row = placement.first()[field]; row < placement.first()[field + 1]; ++row) {
      rows.read(field, row, all.data() + row * C);
    }
  }
  return all;
}

}  // namespace hetsgd
