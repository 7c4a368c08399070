#include "data/sampler.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/dirichlet.hpp"

namespace hetsgd {

namespace {

// Every shard shuffles its epochs with a seed of its own. The pool (rank 0) uses the run's seed.
std::uint64_t shard_seed(std::uint64_t seed, int rank) {
  return seed ^ (static_cast<std::uint64_t>(rank) * 0x9E3779B97F4A7C15ULL);
}

constexpr std::uint64_t kWindowSeed = 0xD1B54A32D192ED03ULL;  // spreads the window numbers

std::vector<Index> rows_by_first_label(const Dataset& data) {
  std::vector<Index> rows(data.rows());
  std::iota(rows.begin(), rows.end(), Index{0});
  // Rows without labels come first: -1 is below every label.
  const auto key = [&](Index row) {
    const auto labels = data.labels(row);
    return labels.empty() ? std::int64_t{-1} : std::int64_t{labels.front()};
  };
  std::stable_sort(rows.begin(), rows.end(), [&](Index a, Index b) { return key(a) < key(b); });
  return rows;
}

}  // namespace

Sampler::Sampler(DatasetPtr data, const Options& options)
    : data_(std::move(data)), options_(options), rows_(data_->rows()) {
  HETSGD_CHECK_LT(0, options_.workers);
  HETSGD_CHECK_LT(0U, rows_);
  HETSGD_CHECK_LT(0U, options_.batch);
  if (options_.partition != Partition::shared &&
      rows_ < static_cast<std::uint64_t>(options_.workers)) {
    refuse("--partition", fmt::format("{} rows for {} workers", rows_, options_.workers),
           "at least one row per worker", "use fewer workers, or --partition shared");
  }
  if (options_.partition == Partition::label_sorted) slices_ = rows_by_first_label(*data_);
  if (options_.partition == Partition::dirichlet) {
    if (data_->task == Task::tokens) {
      refuse("--partition", "dirichlet with rows of tokens", "rows with labels",
             "--partition label_sorted gives each worker a contiguous part of a text");
    }
    std::vector<std::uint64_t> begin;
    for (int rank = 0; rank <= options_.workers; ++rank) begin.push_back(shard_begin(rank));
    slices_ = dirichlet_shards(*data_, begin, options_.alpha, options_.seed);
  }
}

Sampler::Sampler(DatasetPtr shard, const Options& options, int rank)
    : data_(std::move(shard)), options_(options), rows_(data_->totals().rows), only_(rank) {
  HETSGD_CHECK(options_.partition != Partition::shared);
  HETSGD_CHECK_EQ(data_->rows(), shard_size(rank));
}

std::uint64_t Sampler::shard_begin(int rank) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(rows_) * static_cast<unsigned>(rank) /
                                    static_cast<unsigned>(options_.workers));
}

std::uint64_t Sampler::shard_size(int rank) const {
  HETSGD_CHECK_LE(0, rank);
  HETSGD_CHECK_LT(rank, options_.workers);
  const auto workers = static_cast<std::uint64_t>(options_.workers);
  switch (options_.partition) {
    case Partition::shared:
      return rows_;
    case Partition::iid:
      return (rows_ - static_cast<std::uint64_t>(rank) + workers - 1) / workers;
    case Partition::label_sorted:
    case Partition::dirichlet:
      return shard_begin(rank + 1) - shard_begin(rank);
  }
  HETSGD_CHECK(false);
}

std::uint64_t Sampler::order_seed(int rank) const {
  return shard_seed(options_.seed, options_.partition == Partition::shared ? 0 : rank);
}

std::uint64_t Sampler::row_of(int rank, std::uint64_t place, const Permutation& deal) const {
  if (only_) return place;
  switch (options_.partition) {
    case Partition::shared:
      return place;
    case Partition::iid:
      return deal(static_cast<std::uint64_t>(rank) +
                  place * static_cast<std::uint64_t>(options_.workers));
    case Partition::label_sorted:
    case Partition::dirichlet:
      return slices_[shard_begin(rank) + place];
  }
  HETSGD_CHECK(false);
}

std::vector<Index> Sampler::shard(int rank) const {
  HETSGD_CHECK(options_.partition != Partition::shared && !only_);
  const Permutation deal(rows_, options_.seed, Purpose::partition, 0);
  std::vector<Index> rows(shard_size(rank));
  for (std::uint64_t place = 0; place < rows.size(); ++place) {
    rows[place] = static_cast<Index>(row_of(rank, place, deal));
  }
  return rows;
}

Sampler::Adopted Sampler::adopted_by(std::size_t rank, const std::vector<int>& view) const {
  Adopted adopted{.first = rank, .step = view.size()};
  if (options_.partition == Partition::shared) return adopted;
  for (int worker = 0; worker < options_.workers; ++worker) {
    if (std::ranges::find(view, worker) == view.end()) adopted.shards.push_back(worker);
  }
  HETSGD_CHECK(adopted.shards.empty() || !only_);
  return adopted;
}

std::uint64_t Sampler::size_of(int rank, const Adopted& adopted) const {
  std::uint64_t orphans = 0;
  for (const int shard : adopted.shards) orphans += shard_size(shard);
  const std::uint64_t mine =
      orphans > adopted.first ? (orphans - adopted.first + adopted.step - 1) / adopted.step : 0;
  return shard_size(rank) + mine;
}

std::uint64_t Sampler::row_of(const Rows& rows, std::uint64_t place) const {
  const std::uint64_t own = shard_size(rows.rank);
  if (place < own) return row_of(rows.rank, place, rows.deal);
  std::uint64_t orphan = rows.adopted.first + (place - own) * rows.adopted.step;
  for (const int shard : rows.adopted.shards) {
    const std::uint64_t size = shard_size(shard);
    if (orphan < size) return row_of(shard, orphan, rows.deal);
    orphan -= size;
  }
  HETSGD_CHECK(false);
}

Sampler::Window Sampler::window_at(const Rows& rows, std::uint64_t epoch, std::uint64_t position,
                                   const Permutation& order) const {
  const std::uint64_t size = size_of(rows.rank, rows.adopted), batch = options_.batch;
  const std::uint64_t head = (batch - epoch * size % batch) % batch;
  const std::uint64_t batches = size > head ? (size - head) / batch : 0;
  if (position < head || position >= head + batches * batch) return {position, {order(position)}};
  const std::uint64_t number = (position - head) / (kBucketWindow * batch);
  const std::uint64_t count = std::min(kBucketWindow, batches - number * kBucketWindow);
  Window window{head + number * kBucketWindow * batch};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> sorted;  // length, position
  for (std::uint64_t i = window.begin; i < window.begin + count * batch; ++i) {
    sorted.emplace_back(data_->length(row_of(rows, order(i))), i);
  }
  std::sort(sorted.begin(), sorted.end());
  const std::uint64_t seed = order_seed(rows.rank) ^ ((number + 1) * kWindowSeed);
  const Permutation shuffled(count, seed, Purpose::data_order, static_cast<std::uint32_t>(epoch));
  for (std::uint64_t i = 0; i < count * batch; ++i) {
    const std::uint64_t from = shuffled(i / batch) * batch + i % batch;
    window.places.push_back(order(sorted[from].second));
  }
  return window;
}

void Sampler::fill(int rank, const Adopted& adopted, SampleRange range, Batch& batch) const {
  const std::uint64_t size = size_of(rank, adopted);
  if (only_) HETSGD_CHECK_EQ(rank, *only_);
  const Permutation deal(rows_, options_.seed, Purpose::partition, 0);
  const Rows mine{rank, adopted, deal};
  const std::uint64_t seed = order_seed(rank);

  std::vector<Index>& rows = batch.reset(*data_, {options_.augmentation, seed, range.begin});
  std::uint64_t position = range.begin;
  const std::uint64_t end = range.begin + range.count;
  while (position < end) {
    const std::uint64_t epoch = position / size;
    HETSGD_CHECK_LE(epoch, std::uint64_t{std::numeric_limits<std::uint32_t>::max()});
    const std::uint64_t epoch_end = std::min(end, (epoch + 1) * size);
    const Permutation order(size, seed, Purpose::data_order, static_cast<std::uint32_t>(epoch));
    Window window;
    for (; position < epoch_end; ++position) {
      const std::uint64_t offset = position - epoch * size;
      std::uint64_t place = offset;
      if (options_.order == Order::shuffled) place = order(offset);
      if (options_.order == Order::bucketed) {
        if (!window.holds(offset)) window = window_at(mine, epoch, offset, order);
        place = window.places[offset - window.begin];
      }
      rows.push_back(static_cast<Index>(row_of(mine, place)));
    }
  }
}

}  // namespace hetsgd
