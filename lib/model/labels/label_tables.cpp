#include "model/labels/label_tables.hpp"

#include <algorithm>
#include <numeric>

#include "core/error.hpp"
#include "core/random.hpp"
#include "data/huge_pages.hpp"

namespace hetsgd {

namespace {

std::size_t part_begin(std::size_t n, std::size_t parts, std::size_t part) {
  return n * part / parts;
}

}  // namespace

LabelTables::LabelTables(const LabelHash& hash, std::size_t rows, const float* W,
                         std::uint32_t limit, std::uint64_t seed, std::uint32_t rehash,
                         HostCores& cores)
    : rows_(rows), begin_(hash.options().tables) {
  resize_on_huge_pages(entry_, begin_.size() * rows);
  const std::size_t tables = begin_.size(), parts = cores.count();
  std::vector<std::uint32_t> draw(limit == 0 ? 0 : rows);
  cores.run(parts, [&](std::size_t part) {
    const std::size_t begin = part_begin(rows, parts, part);
    const std::size_t end = part_begin(rows, parts, part + 1);
    hash.rows(end - begin, W + begin * hash.inputs(), &entry_[begin], 1, rows);
    for (std::size_t row = begin; row < end && limit != 0; ++row) {
      draw[row] =
          random_block(seed, Purpose::label_fill, static_cast<std::uint32_t>(row), rehash, 1)[0];
    }
  });
  cores.run(parts, [&](std::size_t part) {
    for (std::size_t t = part_begin(tables, parts, part); t < part_begin(tables, parts, part + 1);
         ++t) {
      const std::span<std::uint32_t> entry(&entry_[t * rows], rows);
      sort(entry, begin_[t], hash.options().buckets());
      if (limit != 0) cut(entry, begin_[t], limit, draw);
    }
  });
}

void LabelTables::sort(std::span<std::uint32_t> entry, std::vector<std::uint32_t>& begin,
                       std::size_t buckets) {
  begin.assign(buckets + 1, 0);
  for (const std::uint32_t b : entry) ++begin[b + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  const std::vector<std::uint32_t> bucket_of_row(entry.begin(), entry.end());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::size_t row = 0; row < bucket_of_row.size(); ++row) {
    entry[next[bucket_of_row[row]]++] = static_cast<std::uint32_t>(row);
  }
}

// In place: kept entries move towards the front.
void LabelTables::cut(std::span<std::uint32_t> entry, std::vector<std::uint32_t>& begin,
                      std::uint32_t limit, std::span<const std::uint32_t> draw) {
  std::uint32_t from = 0, kept = 0;
  for (std::size_t b = 0; b + 1 < begin.size(); ++b) {
    const std::uint32_t until = begin[b + 1];
    const auto first = entry.begin() + from, last = entry.begin() + until;
    std::uint32_t count = until - from;
    if (count > limit) {
      count = limit;
      std::nth_element(first, first + limit, last, [&](std::uint32_t x, std::uint32_t y) {
        return std::pair(draw[x], x) < std::pair(draw[y], y);
      });
      std::sort(first, first + limit);
    }
    std::copy_n(first, count, entry.begin() + kept);
    from = until;
    kept += count;
    begin[b + 1] = kept;
  }
}

Retrieval& Retrieval::operator+=(const Retrieval& other) {
  samples += other.samples;
  probed += other.probed;
  retrieved += other.retrieved;
  labels += other.labels;
  found += other.found;
  blind += other.blind;
  return *this;
}

ActiveLabels::ActiveLabels(const ActiveOptions& options, std::size_t labels, std::uint64_t seed)
    : options_(options), labels_(labels), seed_(seed), bits_((labels + 63) / 64) {
  options_.least = static_cast<std::uint32_t>(std::min<std::size_t>(options.least, labels));
}

// The list is as long as a sample may need: labels that the sample already has may precede those
// that it lacks.
void ActiveLabels::fill_list(std::uint64_t a, std::uint32_t b) {
  const auto round = random_block(seed_, Purpose::label_fill, static_cast<std::uint32_t>(a), b, 0);
  const Permutation order(labels_, seed_, Purpose::label_fill, round[0]);
  fill_.resize(options_.least);
  for (std::size_t i = 0; i < fill_.size(); ++i) fill_[i] = static_cast<std::uint32_t>(order(i));
}

void ActiveLabels::begin_batch(std::uint64_t t) {
  batch_ = t;
  if (!options_.all && options_.fill == LabelFill::batch) fill_list(t, 0);
}

bool ActiveLabels::mark(std::uint32_t label) {
  std::uint64_t& word = bits_[label / 64];
  const std::uint64_t bit = std::uint64_t{1} << label % 64;
  if ((word & bit) != 0) return false;
  word |= bit;
  return true;
}

void ActiveLabels::append_all(std::span<const std::uint32_t> truth,
                              std::vector<std::uint32_t>& active) {
  for (const std::uint32_t label : truth) mark(label);
  for (std::uint32_t label = 0; label < labels_; ++label) {
    if (mark(label)) active.push_back(label);
  }
  std::ranges::fill(bits_, 0);
}

// Buckets lie anywhere in memory, so all are prefetched before the first one is read.
void ActiveLabels::find_buckets(const LabelTables& tables, std::span<const std::uint32_t> buckets) {
  constexpr std::size_t kLine = 64 / sizeof(std::uint32_t);
  for (std::size_t t = 0; t < tables.tables(); ++t) tables.prefetch(t, buckets[t]);
  bucket_.clear();
  for (std::size_t t = 0; t < tables.tables(); ++t) {
    bucket_.push_back(tables.bucket(t, buckets[t]));
    const auto& labels = bucket_.back();
    for (std::size_t i = 0; i < labels.size(); i += kLine) __builtin_prefetch(&labels[i]);
  }
}

Retrieval ActiveLabels::append(const LabelTables* tables, std::uint32_t number,
                               std::span<const std::uint32_t> truth,
                               std::span<const std::uint32_t> buckets,
                               std::vector<std::uint32_t>& active) {
  Retrieval counts{.samples = 1, .labels = truth.size()};
  const std::size_t first = active.size();
  const auto size = [&] { return active.size() - first; };
  active.insert(active.end(), truth.begin(), truth.end());
  if (options_.all) {
    append_all(truth, active);
    return counts;
  }
  find_buckets(*tables, buckets);
  retrieved_.clear();
  for (const auto& bucket : bucket_) {
    counts.probed += bucket.size();
    for (const std::uint32_t label : bucket) {
      if (!mark(label)) continue;
      retrieved_.push_back(label);
      if (std::ranges::find(truth, label) != truth.end()) {
        ++counts.found;
      } else {
        active.push_back(label);
      }
    }
  }
  counts.retrieved = retrieved_.size();
  for (const std::uint32_t label : truth) mark(label);
  if (options_.fill == LabelFill::sample) fill_list(batch_, number + 1);
  for (std::size_t i = 0; i < fill_.size() && size() < options_.least; ++i) {
    if (mark(fill_[i])) active.push_back(fill_[i]);
  }
  for (const std::uint32_t label : retrieved_) bits_[label / 64] = 0;
  for (std::size_t i = first; i < active.size(); ++i) bits_[active[i] / 64] = 0;
  return counts;
}

ActiveSets::ActiveSets(const ActiveOptions& options, std::size_t labels, std::size_t inputs,
                       std::uint64_t seed, HostCores& cores)
    : inputs_(inputs),
      cores_(cores),
      scratch_(cores.count(), ActiveLabels(options, labels, seed)) {}

void ActiveSets::find(const Batch& batch, const float* A, const LabelIndex* index,
                      std::uint64_t fill) {
  const std::size_t n = batch.size(), parts = cores_.count();
  const std::size_t tables = index ? index->tables.tables() : 0;
  buckets_.resize(n * tables);
  active_.resize(n);
  truth_.resize(n);
  retrieved_.resize(n);
  std::vector<Retrieval> found(parts);
  cores_.run(parts, [&](std::size_t part) {
    const std::size_t begin = part_begin(n, parts, part), end = part_begin(n, parts, part + 1);
    scratch_[part].begin_batch(fill);
    if (index) {
      found[part].blind = index->hash->queries(end - begin, A + begin * inputs_,
                                               buckets_.data() + begin * tables, tables, 1);
    }
    for (std::size_t i = begin; i < end; ++i) {
      const auto truth = batch.data().targets.indices(batch.rows()[i]);
      active_[i].clear();
      const Retrieval one =
          scratch_[part].append(index ? &index->tables : nullptr, static_cast<std::uint32_t>(i),
                                truth, {buckets_.data() + i * tables, tables}, active_[i]);
      truth_[i] = static_cast<std::uint32_t>(truth.size());
      retrieved_[i] = static_cast<std::uint32_t>(one.retrieved);
      found[part] += one;
    }
  });
  retrieval_ = {};
  for (const Retrieval& each : found) retrieval_ += each;
}

void ActiveSets::cut(std::size_t most) {
  for (std::size_t i = 0; i < active_.size(); ++i) {
    active_[i].resize(std::min(active_[i].size(), std::max<std::size_t>(truth_[i], most)));
  }
}

void ProbedRecall::count(std::span<const std::uint32_t> led_to,
                         std::span<const std::uint32_t> ranked) {
  ++samples;
  retrieved += led_to.size();
  for (std::size_t rank = 0; rank < ranked.size(); ++rank) {
    const bool is_found = std::ranges::binary_search(led_to, ranked[rank]);
    for (std::size_t c = 0; c < std::size(kBest); ++c) {
      if (rank >= kBest[c]) continue;
      ++best[c];
      found[c] += is_found ? 1 : 0;
    }
  }
}

}  // namespace hetsgd
