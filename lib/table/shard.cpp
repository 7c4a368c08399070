#include "table/shard.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"
#include "data/parallel.hpp"

namespace hetsgd {

double TablePlan::bytes(int rank) const {
  return sizeof(float) * static_cast<double>(slots(rank) * placement.stride(rank)) *
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
      tiers_(plan.tiers, plan.placement, rank) {
  constexpr std::size_t kChunk = 4096;  // rows per task
  const Placement& placement = plan.placement;
  const Placement::Columns columns = placement.columns(rank);
  view_.width = columns.size();
  view_.stride = placement.stride(rank);
  const std::size_t slots = plan.slots(rank), floats = slots * view_.stride;
  w_.reset(device, floats);
  view_.w = w_.data();
  for (std::size_t i = 0; i < row_states(plan.optimizer); ++i) {
    state_[i].reset(device, floats);
    view_.state[i] = state_[i].data();
  }
  if (slots < rows_) {
    replacement_.emplace(plan.replacement, plan.initial.seed, rows_, slots);
    return;
  }
  parallel_tasks(threads, (rows_ + kChunk - 1) / kChunk, [&](std::size_t chunk) {
    const std::size_t end = std::min(rows_, (chunk + 1) * kChunk);
    for (std::size_t place = chunk * kChunk; place < end; ++place) {
      const auto slot = static_cast<Index>(place);
      make_row(slot, slot);
    }
  });
}

void Shard::make_initial(Index place, float* to) const {
  const Placement::Columns columns = plan_.placement.columns(rank_);
  const auto [field, row] = plan_.placement.row_at(plan_.placement.group_of_rank(rank_), place);
  plan_.initial.make(static_cast<std::uint32_t>(field), row, columns.begin, columns.end, to);
}

void Shard::make_row(Index place, Index slot) {
  const std::size_t begin = slot * view_.stride, end = begin + view_.stride;
  make_initial(place, view_.w + begin);
  std::fill(view_.w + begin + view_.width, view_.w + end, 0.0F);
  for (float* state : view_.state) {
    if (state) std::fill(state + begin, state + end, 0.0F);
  }
}

void Shard::copy_row(Index place, float* to) const {
  const std::optional<Index> slot = replacement_ ? replacement_->slot_of(place) : place;
  if (!slot) return make_initial(place, to);
  std::copy_n(view_.w + *slot * view_.stride, view_.width, to);
}

std::vector<float> Shard::read(std::span<const Index> places) const {
  std::vector<float> rows(places.size() * view_.width);
  float* to = rows.data();
  for (const Index place : places) {
    copy_row(place, to);
    to += view_.width;
  }
  return rows;
}

void Shard::gather(TableKernels& kernels, std::span<const Index> place, std::vector<Index>& slot,
                   float* out) {
  tiers_.asked_for(place);
  slot.assign(place.begin(), place.end());
  if (replacement_) {
    for (Index& each : slot) {
      const Replacement::Pinned pinned = replacement_->pin(each);
      if (pinned.fresh) make_row(each, pinned.slot);
      each = pinned.slot;
    }
  }
  kernels.gather(view_, slot.size(), slot.data(), out);
}

void Shard::update(TableKernels& kernels, const RowParts<float>& parts, double learning_rate) {
  kernels.update(view_, parts, row_rule(plan_.optimizer, learning_rate, ++updates_));
  moved_ = tiers_.end_update();
  moved_in_all_ += moved_;
}

void Shard::settle(std::span<const Index> place, std::span<const SampleCounts> samples) {
  if (!replacement_) return;
  HETSGD_CHECK_EQ(place.size(), samples.size());
  replacement_->begin_update();
  for (std::size_t i = 0; i < place.size(); ++i) {
    replacement_->touch(place[i], samples[i].positives, samples[i].negatives);
  }
  replacement_->settle();
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
    shards_[static_cast<std::size_t>(rank)]->copy_row(place, to + columns.begin);
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
