#include "model/labels/hashed_labels.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {

void HashedLabels::declare(OptionSet& set) {
  set.add_choice(
         "hash", hash.kind, {{"dwta", HashKind::dwta}, {"simhash", HashKind::simhash}},
         "Hash codes of weight rows and activations. dwta takes the place of the largest of a "
         "few elements, simhash the sign of a sum of them.")
      .needs("objective", {"hashed"});
  set.add("hash_codes", hash.codes, "Number of hash codes that select a bucket.")
      .symbol("K")
      .range(1, 24)
      .needs("objective", {"hashed"});
  set.add("hash_tables", hash.tables, "Number of hash tables.")
      .symbol("L")
      .range(1, 4096)
      .needs("objective", {"hashed"});
  set.add("bin", bin,
          "Elements that one dwta code compares. auto: 8, or the units of a smaller hidden layer.")
      .symbol("m")
      .range(2, 256)
      .needs("objective", {"hashed"});
  set.add("hash_bucket", bucket,
          "Largest number of labels in a bucket. A fuller bucket keeps random labels.")
      .range(0, 1e9)
      .zero_word("unlimited")
      .needs("objective", {"hashed"});
  set.add("rehash", rehash, "Batches after which the hash tables are filled again.")
      .symbol("N0")
      .unit("batches")
      .range(1, 4e9)
      .needs("objective", {"hashed"});
  set.add("rebuild", rebuild, "Batches after which --rehash also draws new hash functions.")
      .unit("batches")
      .range(1, 4e9)
      .needs("objective", {"hashed"});
}

void HashedLabels::validate() const {
  HashOptions widest = hash;
  if (bin) widest.bin = static_cast<std::uint32_t>(*bin);
  constexpr std::uint64_t kMostBuckets = std::uint64_t{1} << 24;
  if (widest.buckets() <= kMostBuckets) return;
  throw usage_error("--hash-codes: found {}, which make {} buckets, expected at most {}",
                    widest.codes, widest.buckets(), kMostBuckets);
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

std::optional<RehashSchedule::Rehash> RehashSchedule::begin(std::uint64_t batches) {
  const bool is_due = static_cast<double>(batches) >= next_;
  if (!is_due && !renew_) return std::nullopt;
  const auto generation = static_cast<std::uint32_t>(batches / options_.rebuild);
  const bool is_first = next_ == 0;
  last_ = {.number = is_first ? 0 : last_.number + 1,
           .generation = generation,
           .rebuilt = is_first || renew_ || generation > last_.generation};
  if (is_due) next_ += options_.rehash;
  renew_ = false;
  return last_;
}

void RehashSchedule::fields(Archive& fields) {
  fields("next", next_);
  fields("last", last_);
  renew_ = fields.is_loading() && next_ > 0;
}

namespace {

// The elements as float: in place, or converted into `room`.
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
      softmax_(labels, inputs, cores),
      active_({.least = static_cast<std::uint32_t>(least_)}, labels, inputs, 0, cores),
      schedule_(options) {}

template <class Real>
BasicSampledSoftmax<Real>& BasicHashedSoftmax<Real>::choose(const Batch& batch, const Real* A,
                                                            const Real* W) {
  const std::uint32_t seed = label_seed(batch.rows());
  std::vector<float> room;
  if (const auto rehash = schedule_.begin(batches_++)) {
    auto hash = rehash->rebuilt ? std::make_shared<const LabelHash>(
                                      options_.hash_of(inputs_), inputs_, seed, rehash->generation)
                                : index_->hash;
    index_.reset();  // one set of tables in memory
    index_.emplace(
        LabelIndex{hash, LabelTables(*hash, labels_, as_floats(labels_ * inputs_, W, room),
                                     options_.bucket, seed, rehash->number, cores_)});
  }
  last_.keep(batch);
  active_.find(batch, as_floats(batch.size() * inputs_, A, room), &*index_, seed);
  active_.cut(least_);
  softmax_.begin(active_.active(), active_.truth());
  return softmax_;
}

template <class Real>
std::optional<std::span<const std::uint32_t>> BasicHashedSoftmax<Real>::labels_of(
    const Batch& batch) const {
  if (!last_.are_of(batch)) return std::nullopt;
  return softmax_.labels();
}

template <class Real>
void BasicHashedSoftmax<Real>::fields(Archive& fields) {
  fields("schedule", schedule_);
  fields("batches", batches_);
}

template class BasicHashedSoftmax<float>;
template class BasicHashedSoftmax<double>;

}  // namespace hetsgd
