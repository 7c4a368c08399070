#include "model/labels/hashed_labels.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {

void HashedLabels::declare(OptionSet& set) {
  set.add_choice("hash", hash.kind, {{"dwta", HashKind::dwta}, {"simhash", HashKind::simhash}},
                 "codes of rows and activations: places of the largest of a few numbers, or signs")
      .needs("objective", {"hashed"});
  set.add("hash_codes", hash.codes, "codes that make a bucket")
      .symbol("K")
      .range(1, 24)
      .needs("objective", {"hashed"});
  set.add("hash_tables", hash.tables, "hash tables")
      .symbol("L")
      .range(1, 4096)
      .needs("objective", {"hashed"});
  set.add("bin", bin, "numbers that a dwta code compares; auto: 8, or the hidden layer's units")
      .symbol("m")
      .range(2, 256)
      .needs("objective", {"hashed"});
  set.add("hash_bucket", bucket, "rows of a bucket at most; unlimited: as many as come")
      .range(0, 1e9)
      .zero_word("unlimited")
      .needs("objective", {"hashed"});
  set.add("rehash", rehash, "batches from one rehash to the next")
      .symbol("N0")
      .unit("batches")
      .range(1, 4e9)
      .needs("objective", {"hashed"});
  set.add("rebuild", rebuild, "batches after which a rehash takes new functions")
      .unit("batches")
      .range(1, 4e9)
      .needs("objective", {"hashed"});
}

void HashedLabels::validate() const {
  HashOptions widest = hash;
  if (bin) widest.bin = static_cast<std::uint32_t>(*bin);
  constexpr std::uint64_t kMostBuckets = std::uint64_t{1} << 24;
  if (widest.buckets() <= kMostBuckets) return;
  throw with_hint(usage_error("--hash-codes: found {}, which make {} buckets, expected at most {}",
                              widest.codes, widest.buckets(), kMostBuckets),
                  "make a bucket of fewer codes");
}

HashOptions HashedLabels::hash_of(std::size_t inputs) const {
  HashOptions fitting = hash;
  const auto most = static_cast<std::uint32_t>(inputs);
  fitting.bin = bin ? static_cast<std::uint32_t>(*bin) : std::min(hash.bin, most);
  if (hash.kind == HashKind::dwta && fitting.bin > most) {
    throw usage_error("--bin: found {}, expected at most the {} units of the hidden layer",
                      fitting.bin, inputs);
  }
  return fitting;
}

Work HashedLabels::query_work(double queries, double inputs) const {
  return {queries * static_cast<double>(hash.all_codes()) * hash.bin, 8 * queries * inputs, 1};
}

Work HashedLabels::table_work(double rows, double inputs) const {
  return {rows * static_cast<double>(hash.all_codes()) * hash.bin,
          4 * rows * inputs + 12 * rows * hash.tables, 2};
}

namespace {

// The numbers as float: where they lie, or in `room`.
const float* as_floats(std::size_t, const float* x, std::vector<float>&) { return x; }
const float* as_floats(std::size_t n, const double* x, std::vector<float>& room) {
  room.assign(x, x + n);
  return room.data();
}

}  // namespace

template <class Real>
BasicHashedSoftmax<Real>::BasicHashedSoftmax(const HashedLabels& options, std::size_t labels,
                                             std::size_t inputs, std::size_t least,
                                             HostCores& cores)
    : options_(options),
      labels_(labels),
      inputs_(inputs),
      least_(std::min(least, labels)),
      cores_(cores),
      softmax_(labels, inputs, cores) {
  const ActiveOptions active{.least = static_cast<std::uint32_t>(least_)};
  scratch_.assign(cores.count(), ActiveLabels(active, labels, 0));
}

template <class Real>
void BasicHashedSoftmax<Real>::make_tables(const Batch& batch, const Real* W) {
  const std::uint32_t seed = label_seed(batch.rows());
  const std::uint64_t generation = batches_ / options_.rebuild;
  if (!hash_ || generation > generation_) {
    hash_.emplace(options_.hash_of(inputs_), inputs_, seed, static_cast<std::uint32_t>(generation));
    generation_ = generation;
  }
  std::vector<float> room;
  tables_.reset();  // one set of tables in memory
  tables_.emplace(*hash_, labels_, as_floats(labels_ * inputs_, W, room), options_.bucket, seed,
                  rehashes_++, cores_);
  next_rehash_ += options_.rehash;
}

template <class Real>
BasicSampledSoftmax<Real>& BasicHashedSoftmax<Real>::choose(const Batch& batch, const Real* A,
                                                            const Real* W) {
  if (static_cast<double>(batches_) >= next_rehash_) make_tables(batch, W);
  ++batches_;
  last_.keep(batch);
  const std::uint32_t fill = label_seed(batch.rows());
  const std::size_t n = batch.size(), tables = options_.hash.tables, parts = cores_.count();
  std::vector<float> room;
  const float* const activations = as_floats(n * inputs_, A, room);
  buckets_.resize(n * tables);
  active_.resize(n);
  truth_.resize(n);
  cores_.run(parts, [&](std::size_t part) {
    const std::size_t begin = n * part / parts, end = n * (part + 1) / parts;
    scratch_[part].begin_batch(fill);
    hash_->queries(end - begin, activations + begin * inputs_, &buckets_[begin * tables], tables,
                   1);
    for (std::size_t i = begin; i < end; ++i) {
      const auto truth = batch.data().targets.indices(batch.rows()[i]);
      active_[i].clear();
      scratch_[part].append(&*tables_, static_cast<std::uint32_t>(i), truth,
                            {&buckets_[i * tables], tables}, active_[i]);
      active_[i].resize(std::min(active_[i].size(), std::max(truth.size(), least_)));
      truth_[i] = static_cast<std::uint32_t>(truth.size());
    }
  });
  softmax_.begin(active_, truth_);
  return softmax_;
}

template <class Real>
std::optional<std::span<const std::uint32_t>> BasicHashedSoftmax<Real>::labels_of(
    const Batch& batch) const {
  if (!last_.are_of(batch)) return std::nullopt;
  return softmax_.labels();
}

template class BasicHashedSoftmax<float>;
template class BasicHashedSoftmax<double>;

}  // namespace hetsgd
