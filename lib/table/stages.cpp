#include "table/stages.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"

namespace hetsgd {

namespace {

FieldRows<float> field_rows(const Batch& batch) {
  const Dataset& data = batch.data();
  return {.rows = batch.size(),
          .columns = data.dense.columns,
          .fields = data.fields.count(),
          .categories = data.fields.first.back(),
          .row = batch.rows().data(),
          .dense = data.dense.value.data(),
          .category = data.fields.category.data()};
}

std::size_t sum_of(std::span<const std::size_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

}  // namespace

TableStages::TableStages(const TablePlan& plan, Shard& shard, Device& device)
    : plan_(plan), shard_(shard), device_(device), kernels_(kernels<TableKernels>(device)) {}

std::unique_ptr<Lookup> TableStages::make_lookup() const {
  auto lookup = std::make_unique<Lookup>();
  const std::size_t ranks = at(plan_.placement.ranks());
  lookup->rank_ = at(shard_.rank());
  lookup->ones_.assign(ranks, 1);
  lookup->asks_.resize(ranks);
  lookup->asks_of_all_.resize(ranks);
  lookup->share_.resize(ranks);
  for (auto* counts : {&lookup->ask_counts_, &lookup->row_counts_, &lookup->asked_counts_,
                       &lookup->asked_floats_}) {
    counts->resize(ranks);
  }
  const std::size_t groups = at(plan_.placement.groups());
  lookup->group_entries_.resize(groups);
  lookup->group_begin_.resize(groups);
  return lookup;
}

// Field by field: a row belongs to one field, and the hash of one field's rows stays in the cache.
void TableStages::number(Lookup& l) const {
  const Placement& placement = plan_.placement;
  const Batch& batch = l.batch_;
  const std::size_t n = batch.size(), F = plan_.fields();
  const Index* const category = batch.data().fields.category.data();
  l.entry_.resize(n * F);
  l.found_.clear();
  for (std::size_t f = 0; f < F; ++f) {
    const auto row_of = [&](std::size_t i) {
      return category[std::size_t{batch.rows()[i]} * F + f];
    };
    const std::size_t before = l.found_.size();
    if (plan_.dedup) {
      l.distinct_.begin(n);
      for (std::size_t i = 0; i < n; ++i) {
        l.entry_[i * F + f] = static_cast<std::uint32_t>(before + l.distinct_.slot(row_of(i)));
      }
      for (const Index row : l.distinct_.found()) l.found_.push_back(placement.place_of(f, row));
    } else {
      for (std::size_t i = 0; i < n; ++i) {
        l.entry_[i * F + f] = static_cast<std::uint32_t>(before + i);
        l.found_.push_back(placement.place_of(f, row_of(i)));
      }
    }
  }
}

// Sorts entries by group, and inside a group by the order in which they were found.
void TableStages::sort_by_group(Lookup& l) const {
  std::ranges::fill(l.group_entries_, 0);
  for (const Placement::Place& place : l.found_) ++l.group_entries_[place.group];
  std::exclusive_scan(l.group_entries_.begin(), l.group_entries_.end(), l.group_begin_.begin(),
                      std::size_t{0});
  if (l.group_entries_.size() == 1) return;
  l.next_ = l.group_begin_;
  l.renumbered_.resize(l.found_.size());
  l.sorted_.resize(l.found_.size());
  for (std::size_t i = 0; i < l.found_.size(); ++i) {
    const std::size_t entry = l.next_[l.found_[i].group]++;
    l.renumbered_[i] = static_cast<std::uint32_t>(entry);
    l.sorted_[entry] = l.found_[i];
  }
  std::swap(l.found_, l.sorted_);
  for (std::uint32_t& entry : l.entry_) entry = l.renumbered_[entry];
}

template <class Fn>
void TableStages::for_each_rank(const Lookup& l, const Fn& fn) const {
  for (int rank = 0; rank < plan_.placement.ranks(); ++rank) {
    const std::size_t group = at(plan_.placement.group_of_rank(rank));
    fn(at(rank), plan_.placement.columns(rank), l.group_begin_[group], l.group_entries_[group]);
  }
}

void TableStages::request(const Batch& batch, Lookup& l) const {
  HETSGD_CHECK(!batch.empty());
  HETSGD_CHECK_EQ(batch.data().fields.count(), plan_.fields());
  l.batch_.reset(batch.data()).assign(batch.rows().begin(), batch.rows().end());
  number(l);
  sort_by_group(l);
  if (replaces()) count_samples(l);
  l.place_.clear();
  l.ask_rows_.clear();
  for_each_rank(l, [&](std::size_t rank, const Placement::Columns& columns, std::size_t begin,
                       std::size_t count) {
    l.ask_counts_[rank] = count;
    l.row_counts_[rank] = count * columns.size();
    for (std::size_t i = begin; i < begin + count; ++i) {
      l.place_.push_back(l.found_[i].place);
      if (replaces()) l.ask_rows_.push_back({l.found_[i].place, l.samples_[i]});
    }
  });
  for (std::size_t rank = 0; rank < l.asks_.size(); ++rank) {
    l.asks_[rank] = {static_cast<std::uint32_t>(l.ask_counts_[rank]),
                     static_cast<std::uint32_t>(batch.size())};
  }
}

void TableStages::count_samples(Lookup& l) const {
  l.samples_.assign(l.found_.size(), {});
  const std::size_t F = plan_.fields();
  for (std::size_t i = 0; i < l.batch_.size(); ++i) {
    const bool positive = !l.batch_.data().labels(l.batch_.rows()[i]).empty();
    for (std::size_t f = 0; f < F; ++f) {
      SampleCounts& samples = l.samples_[l.entry_[i * F + f]];
      ++(positive ? samples.positives : samples.negatives);
    }
  }
}

CollectiveRequest TableStages::exchange_counts(Lookup& l) const {
  return all_to_all(std::span<const Lookup::Ask>(l.asks_), l.ones_, std::span(l.asks_of_all_),
                    l.ones_, Traffic::ids);
}

CollectiveRequest TableStages::exchange_ids(Lookup& l) const {
  std::uint64_t samples = 0;
  for (const Lookup::Ask& ask : l.asks_of_all_) samples += ask.samples;
  for (std::size_t rank = 0; rank < l.asks_of_all_.size(); ++rank) {
    const Lookup::Ask& ask = l.asks_of_all_[rank];
    l.asked_counts_[rank] = ask.rows;
    l.share_[rank] =
        static_cast<float>(static_cast<double>(ask.samples) / static_cast<double>(samples));
  }
  l.asked_.resize(sum_of(l.asked_counts_));
  if (replaces()) {
    l.asked_rows_.resize(l.asked_.size());
    return all_to_all(std::span<const AskedRow>(l.ask_rows_), l.ask_counts_,
                      std::span(l.asked_rows_), l.asked_counts_, Traffic::ids);
  }
  return all_to_all(std::span<const Index>(l.place_), l.ask_counts_, std::span(l.asked_),
                    l.asked_counts_, Traffic::ids);
}

std::vector<OwnerPart> TableStages::by_owner(Lookup& l) const {
  l.rows_.reset(device_, l.entries() * plan_.placement.width());
  std::ranges::fill(l.share_, 1.0F);
  const std::span<const std::byte> asked =
      replaces() ? std::as_bytes(std::span(l.ask_rows_)) : std::as_bytes(std::span(l.place_));
  const std::size_t bytes = replaces() ? sizeof(AskedRow) : sizeof(Index);
  std::vector<OwnerPart> parts;
  parts.reserve(l.ask_counts_.size());
  std::size_t row = 0, number = 0;
  for (std::size_t rank = 0; rank < l.ask_counts_.size(); ++rank) {
    const std::size_t rows = l.ask_counts_[rank], numbers = l.row_counts_[rank];
    parts.push_back({.rows = rows,
                     .asked = asked.subspan(row * bytes, rows * bytes),
                     .columns = l.rows_.span().subspan(number, numbers)});
    row += rows;
    number += numbers;
  }
  return parts;
}

void TableStages::gather(Lookup& l) const {
  if (replaces()) {
    l.asked_samples_.resize(l.asked_.size());
    for (std::size_t i = 0; i < l.asked_.size(); ++i) {
      l.asked_[i] = l.asked_rows_[i].place;
      l.asked_samples_[i] = l.asked_rows_[i].samples;
    }
  }
  std::span<const Index> places = l.asked_;
  for (std::size_t rank = 0; rank < l.asked_counts_.size(); ++rank) {
    l.asked_floats_[rank] = shard_.floats(places.first(l.asked_counts_[rank]));
    places = places.subspan(l.asked_counts_[rank]);
  }
  l.gathered_.reset(device_, sum_of(l.asked_floats_));
  shard_.gather(kernels_, l.asked_, l.slot_, l.gathered_.data());
}

CollectiveRequest TableStages::exchange_rows(Lookup& l) const {
  l.rows_.reset(device_, l.entries() * plan_.placement.width());
  return all_to_all(std::span<const float>(l.gathered_.span()), l.asked_floats_, l.rows_.span(),
                    l.row_counts_, Traffic::rows);
}

// join: copies the ranks' parts to whole rows; otherwise back.
void TableStages::move_slices(Lookup& l, bool join) const {
  const std::size_t C = plan_.placement.width();
  float* sent = l.rows_.data();
  for_each_rank(
      l, [&](std::size_t, const Placement::Columns& own, std::size_t begin, std::size_t count) {
        const std::size_t width = own.size();
        float* const here = l.whole_.data() + begin * C + own.begin;
        if (join) {
          kernels_.copy_columns(count, width, sent, width, here, C);
        } else {
          kernels_.copy_columns(count, width, here, C, sent, width);
        }
        sent += count * width;
      });
}

void TableStages::spread(Lookup& l) const {
  const bool sliced = plan_.placement.slices() > 1;
  if (sliced) {
    l.whole_.reset(device_, l.rows_.size());
    move_slices(l, true);
  }
  l.embedded.reset(device_, l.batch_.size(), plan_.width());
  const float* const rows = sliced ? l.whole_.data() : l.rows_.data();
  // Only the dense columns go to the device: the entries replace the categories.
  FieldRows<float> batch = field_rows(l.batch_);
  batch.fields = batch.categories = 0;
  batch = device_.stage(batch);
  batch.fields = plan_.fields();
  kernels_.spread(batch, plan_.shape, l.entry_.data(), rows, l.embedded.x.data(),
                  l.embedded.u.data());
}

void TableStages::sum(Lookup& l) const {
  const bool sliced = plan_.placement.slices() > 1;
  if (sliced) l.whole_.reset(device_, l.rows_.size());
  const float scale = plan_.dedup ? l.share_[l.rank_] : 1.0F;
  kernels_.sum(field_rows(l.batch_), plan_.shape, l.entry_.data(), l.entries(), scale,
               l.gradient.x.data(), l.gradient.u.data(), sliced ? l.whole_.data() : l.rows_.data());
  if (sliced) move_slices(l, false);
}

CollectiveRequest TableStages::exchange_sums(Lookup& l) const {
  return all_to_all(std::span<const float>(l.rows_.span()), l.row_counts_, l.gathered_.span(),
                    l.asked_floats_, Traffic::rows);
}

void TableStages::update(Lookup& l, double learning_rate) const {
  const RowParts<float> parts{.parts = l.asked_counts_.size(),
                              .count = l.asked_counts_.data(),
                              .row = l.slot_.data(),
                              .value = l.gathered_.data(),
                              .scale = plan_.dedup ? nullptr : l.share_.data()};
  shard_.update(kernels_, parts, learning_rate);
  shard_.settle(l.asked_, l.asked_samples_);
}

Work TableStages::request_work(const Batch& batch) const {
  const double lookups = static_cast<double>(batch.size() * plan_.fields());
  return {0, 3 * kElementBytes * lookups, 1};
}

Work TableStages::spread_work(const Lookup& l) const {
  const auto L = static_cast<double>(l.lookups()), C = static_cast<double>(plan_.placement.width());
  return {L, kElementBytes * L * (1 + 2 * C), 1};
}

Work TableStages::sum_work(const Lookup& l) const {
  const auto L = static_cast<double>(l.lookups()), m = static_cast<double>(l.entries());
  const auto C = static_cast<double>(plan_.placement.width());
  return {L * C, kElementBytes * (L * (1 + C) + 2 * m * C), 1};
}

}  // namespace hetsgd
