#include "table/shard.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"
#include "data/parallel.hpp"
#include "linalg/buffer_field.hpp"
#include "linalg/cuda/cuda_device.hpp"

namespace hetsgd {

double TablePlan::bytes(int rank) const {
  const std::size_t floats = slots(rank) * placement.stride(rank);
  return sizeof(float) * static_cast<double>(floats) *
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
      device_(device),
      tiers_(plan.tiers, plan.placement, rank) {
  const std::size_t slots = plan.slots(rank);
  allocate(slots);
  if (slots < rows_) {
    replacement_.emplace(plan.replacement, plan.initial.seed, rows_, slots);
  } else {
    if (!on_host_) order_by_tier();
    const std::size_t split = std::min(view_.on_device, view_.rows);
    make_rows(0, split, view_.w, view_.state, threads);
    make_rows(split, view_.rows, view_.host_w, view_.host_state, threads);
  }
  device.synchronize();  // other devices of its GPU work on the rows
}

// A GPU has the rows in two tiers. On a CPU tiers are one memory.
void Shard::allocate(std::size_t slots) {
  const std::size_t states = row_states(plan_.optimizer);
  const std::size_t here = device_.stages_copies() ? plan_.tiers.on_device(slots) : slots;
  view_.width = plan_.placement.columns(rank_).size();
  view_.stride = plan_.placement.stride(rank_);
  view_.rows = slots;
  w_.reset(device_, here * view_.stride);
  view_.w = w_.data();
  for (std::size_t i = 0; i < states; ++i) {
    state_[i].reset(device_, here * view_.stride);
    view_.state[i] = state_[i].data();
  }
  on_host_ = device_.host_accessible(w_.data()) || here == 0;
  if (here == slots) return;
  const std::size_t floats = (slots - here) * view_.stride;
  view_.on_device = here;
  host_w_ = HostBlock(device_, floats);
  view_.host_w = host_w_.data();
  for (std::size_t i = 0; i < states; ++i) {
    host_state_[i] = HostBlock(device_, floats);
    view_.host_state[i] = host_state_[i].data();
  }
}

void Shard::order_by_tier() {
  const std::vector<bool>& hot = tiers_.hot();
  if (hot.empty()) return;
  slot_at_.resize(rows_);
  place_in_.resize(rows_);
  std::size_t next[2] = {0, view_.on_device};  // hot, cold
  for (std::size_t place = 0; place < rows_; ++place) {
    const std::size_t slot = next[hot[place] ? 0 : 1]++;
    slot_at_[place] = static_cast<Index>(slot);
    place_in_[slot] = static_cast<Index>(place);
  }
}

std::optional<Index> Shard::slot_of(Index place) const {
  if (replacement_) return replacement_->slot_of(place);
  return slot_at_.empty() ? place : slot_at_[place];
}

// Makes rows in place, or in pieces that are sent if the host cannot reach the memory.
void Shard::make_rows(std::size_t first, std::size_t last, float* w, float* const* states,
                      std::optional<int> threads) {
  constexpr std::size_t kChunk = 4096;         // rows per task
  constexpr std::size_t kPiece = 64 * kChunk;  // rows that are sent at once
  if (first == last) return;
  const bool here = device_.host_accessible(w);
  const std::size_t stride = view_.stride, each = here ? last - first : kPiece;
  std::vector<float> piece(here ? 0 : std::min(each, last - first) * stride);
  for (std::size_t begin = first; begin < last; begin += each) {
    const std::size_t count = std::min(each, last - begin);
    float* const to = here ? w : piece.data();
    parallel_tasks(threads, (count + kChunk - 1) / kChunk, [&](std::size_t chunk) {
      const std::size_t end = std::min(count, (chunk + 1) * kChunk);
      for (std::size_t i = chunk * kChunk; i < end; ++i) {
        const auto slot = static_cast<Index>(begin + i);
        make_initial(place_in_.empty() ? slot : place_in_[slot], to + i * stride);
        std::fill(to + i * stride + view_.width, to + (i + 1) * stride, 0.0F);
        for (std::size_t s = 0; here && s < 2; ++s) {
          if (states[s]) std::fill_n(states[s] + i * stride, stride, 0.0F);
        }
      }
    });
    if (!here) device_.upload(w + (begin - first) * stride, to, count * stride * sizeof(float));
  }
  for (std::size_t s = 0; !here && s < 2; ++s) {
    if (states[s]) device_.fill((last - first) * stride, 0.0F, states[s]);
  }
}

void Shard::make_initial(Index place, float* to) const {
  const Placement::Columns columns = plan_.placement.columns(rank_);
  const auto [field, row] = plan_.placement.row_at(plan_.placement.group_of_rank(rank_), place);
  plan_.initial.make(static_cast<std::uint32_t>(field), row, columns.begin, columns.end, to);
}

void Shard::copy_row(Index place, float* to) const {
  HETSGD_CHECK(on_host_);
  const std::optional<Index> slot = slot_of(place);
  if (!slot) return make_initial(place, to);
  const float* const w = *slot < view_.on_device ? view_.w : view_.host_w;
  std::copy_n(w + *slot * view_.stride, view_.width, to);
}

std::vector<float> Shard::read(std::span<const Index> places) const {
  constexpr std::size_t kPiece = 65536;  // rows that are copied from a GPU at once
  std::vector<float> rows(floats(places));
  float* to = rows.data();
  for (std::size_t i = 0; on_host_ && i < places.size(); ++i) {
    copy_row(places[i], to);
    to += view_.width;
  }
  for (std::size_t begin = 0; !on_host_ && begin < places.size(); begin += kPiece) {
    const std::size_t count = std::min(kPiece, places.size() - begin);
    read_from_device(places.subspan(begin, count), to);
    to += count * view_.width;
  }
  return rows;
}

// An absent row is first read like any other, and then overwritten.
void Shard::read_from_device(std::span<const Index> places, float* to) const {
  std::vector<Index> slot(places.size());
  for (std::size_t i = 0; i < places.size(); ++i) slot[i] = slot_of(places[i]).value_or(0);
  Buffer rows(device_, places.size() * view_.width);
  kernels<TableKernels>(device_).gather(view_, slot.size(), slot.data(), rows.data());
  device_.download(to, rows.data(), rows.size() * sizeof(float));
  for (std::size_t i = 0; replacement_ && i < places.size(); ++i) {
    if (!slot_of(places[i])) make_initial(places[i], to + i * view_.width);
  }
}

void Shard::pin(TableKernels& kernels, std::vector<Index>& places) {
  fresh_.clear();
  fresh_rows_.clear();
  for (Index& each : places) {
    const Replacement::Pinned pinned = replacement_->pin(each);
    if (pinned.fresh) {
      fresh_.push_back(pinned.slot);
      fresh_rows_.resize(fresh_.size() * view_.width);
      make_initial(each, fresh_rows_.data() + fresh_rows_.size() - view_.width);
    }
    each = pinned.slot;
  }
  kernels.put(view_, fresh_.size(), fresh_.data(), fresh_rows_.data());
}

void Shard::gather(TableKernels& kernels, std::span<const Index> place, std::vector<Index>& slot,
                   float* out) {
  tiers_.asked_for(place);
  slot.assign(place.begin(), place.end());
  if (replacement_) {
    pin(kernels, slot);
  } else if (!slot_at_.empty()) {
    for (Index& each : slot) each = slot_at_[each];
  }
  kernels.gather(view_, slot.size(), slot.data(), out);
}

void Shard::update(TableKernels& kernels, const RowParts<float>& parts, double learning_rate) {
  const RowRule<float> rule = row_rule(plan_.optimizer, learning_rate, ++updates_);
  kernels.update(view_, parts, rule);
  last_moved_ = tiers_.end_update();
  moved_ += last_moved_;
}

Work Shard::scattered_work(std::span<const Index> places, double times) const {
  const double device = static_cast<double>(on_device(places) * view_.width);
  const double host = static_cast<double>(floats(places)) - device;
  return {.bytes = kElementBytes * static_cast<double>(places.size() + floats(places)),
          .launches = 1,
          .host_link_bytes = kElementBytes * host,
          .gather_bytes = times * kElementBytes * device,
          .host_gather_bytes = times * kElementBytes * host};
}

// It includes the rows that moved between tiers after the update before. For each row that came to
// the device one left. Each is read in one memory, crosses the host link and is written in the
// other, with its state.
Work Shard::update_work(std::span<const Index> places) const {
  const auto vectors = static_cast<double>(1 + row_states(plan_.optimizer));
  Work work = scattered_work(places, 2 * vectors);
  work.operations = 4 * static_cast<double>(floats(places));
  const double moved = kElementBytes * static_cast<double>(2 * last_moved_ * view_.width) * vectors;
  return work + Work{.host_link_bytes = moved, .gather_bytes = moved, .host_gather_bytes = moved};
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

void Shard::fields(Archive& fields) {
  const std::size_t states = row_states(plan_.optimizer);
  const auto tier = [&](const std::string& name, float* memory, std::size_t rows) {
    if (rows > 0) visit_memory(fields, name, device_, std::span(memory, rows * view_.stride));
  };
  const std::size_t here = std::min(view_.on_device, view_.rows);
  tier("w", view_.w, here);
  tier("host_w", view_.host_w, view_.rows - here);
  for (std::size_t i = 0; i < states; ++i) {
    tier(fmt::format("state{}", i), view_.state[i], here);
    tier(fmt::format("host_state{}", i), view_.host_state[i], view_.rows - here);
  }
  if (replacement_) fields("replacement", *replacement_);
  fields("tiers", tiers_);
  fields("slot_at", slot_at_);
  fields("place_in", place_in_);
  fields("last_moved", last_moved_);
  fields("moved", moved_);
  fields("updates", updates_);
}

TableSet::TableSet(TablePlan plan, std::span<const int> ranks, double machine_bytes,
                   std::optional<int> threads, std::span<const int> gpus)
    : plan_(std::move(plan)) {
  const Placement& placement = plan_.placement;
  const auto gpu_of_entry = [&](std::size_t i) { return gpus.empty() ? -1 : gpus[i]; };
  double bytes = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    bytes += plan_.bytes(ranks[i]) - (gpu_of_entry(i) < 0 ? 0 : plan_.device_bytes(ranks[i]));
  }
  if (bytes > machine_bytes) {
    refuse("--tables",
           fmt::format("sharded with {} rows of {} elements over {} workers, which need {} of this "
                       "machine's memory",
                       placement.first().back(), placement.width(), placement.ranks(),
                       format_bytes(bytes)),
           "at most " + format_bytes(machine_bytes),
           "more machines, a smaller --embedding-dim, a larger --min-frequency or a smaller "
           "--hash-size need less memory on each");
  }
  shards_.resize(at(placement.ranks()));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int rank = ranks[i];
    Device& device = device_of(gpu_of_entry(i));
    try {
      shards_[at(rank)] = std::make_unique<Shard>(plan_, rank, device, threads);
    } catch (const MemoryError& error) {
      throw with_hint(
          usage_error("--tables: found sharded with {} of rows of worker {} on {}: {}",
                      format_bytes(plan_.device_bytes(rank)), rank, device.name(), error.what()),
          "--table-storage host, or hybrid with a smaller --hot-fraction, needs less device "
          "memory");
    }
  }
}

Device& TableSet::device_of(int gpu) {
  std::unique_ptr<Device>& device = devices_[gpu];
  if (!device) device = gpu < 0 ? make_cpu_device<float>(1) : make_cuda_device<float>(gpu);
  return *device;
}

bool TableSet::on_host() const {
  return std::ranges::all_of(shards_, [](const auto& shard) { return !shard || shard->on_host(); });
}

Shard& TableSet::shard(int rank) {
  HETSGD_CHECK(shards_[at(rank)] != nullptr);
  return *shards_[at(rank)];
}

void TableSet::read(std::size_t field, Index row, float* to) const {
  const Placement::Place where = plan_.placement.place_of(field, row);
  plan_.placement.for_each_rank(where.group, [&](int rank) {
    shards_[at(rank)]->copy_row(where.place, to + plan_.placement.columns(rank).begin);
  });
}

GatheredRows::GatheredRows(const TablePlan& plan, std::span<const Index> rows)
    : plan_(plan),
      group_(at(plan.placement.groups())),
      number_(plan.placement.first().back()),
      rows_(rows.size() * plan.placement.width()) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [group, place] = plan.placement.place_of(plan.placement.field_of(rows[i]), rows[i]);
    group_[group].places.push_back(place);
    group_[group].numbers.push_back(static_cast<Index>(i));
    number_[rows[i]] = static_cast<Index>(i);
  }
}

std::vector<Index> GatheredRows::places(int rank) const { return group_of(rank).places; }

void GatheredRows::take(int rank, std::span<const float> columns) {
  const Placement::Columns own = plan_.placement.columns(rank);
  const Group& group = group_of(rank);
  HETSGD_CHECK_EQ(group.numbers.size() * own.size(), columns.size());
  const float* from = columns.data();
  for (const Index number : group.numbers) {
    std::copy_n(from, own.size(), rows_.data() + number * plan_.placement.width() + own.begin);
    from += own.size();
  }
}

void GatheredRows::read(std::size_t, Index row, float* to) const {
  const std::size_t C = plan_.placement.width();
  std::copy_n(rows_.data() + number_[row] * C, C, to);
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
