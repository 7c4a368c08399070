#include "algorithm/parts/sampled_options.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hetsgd {

void SampledOptions::declare(OptionSet& set) {
  declare_hash(set);
  set.add("bucket", bucket, "rows of a bucket at most; 0: no limit").range(0, 1e9);
  set.add("rehash", rehash, "batches from one rehash to the next")
      .symbol("N0")
      .unit("batches")
      .at_least(1);
  set.add("rebuild", rebuild, "batches after which a rehash takes new functions")
      .unit("batches")
      .range(1, 4e9);
  declare_active(set);
  set.add_choice("lazy", lazy,
                 {{"catch_up", Lazy::catch_up}, {"touched", Lazy::touched}, {"dense", Lazy::dense}},
                 "what adam does to rows without a gradient: moves them when they are next read, "
                 "nothing, moves them in every batch");
  set.add("probe", probe,
          "test samples whose best labels are looked for in the tables at every evaluation, off "
          "the clock")
      .unit("samples")
      .range(0, 1e6);
}

void SampledOptions::declare_hash(OptionSet& set) {
  set.add_choice("hash", hash.kind, {{"dwta", HashKind::dwta}, {"simhash", HashKind::simhash}},
                 "codes of rows and activations: places of the largest of a few numbers, or signs");
  set.add("hash_codes", hash.codes, "codes that make a bucket").symbol("K").range(1, 24);
  set.add("hash_tables", hash.tables, "hash tables").symbol("L").range(1, 4096);
  set.add("bin", bin, "numbers that a dwta code compares; auto: 8, or the hidden layer's units")
      .symbol("m")
      .range(2, 256);
}

void SampledOptions::declare_active(OptionSet& set) {
  set.add_choice("active", active.all, {{"tables", false}, {"all", true}},
                 "labels that a sample scores: those that tables lead to, or all");
  set.add("active_min", active.least, "active labels of a sample at least, filled at random")
      .unit("labels")
      .range(0, 4e9);
  set.add_choice("fill", active.fill, {{"batch", LabelFill::batch}, {"sample", LabelFill::sample}},
                 "random labels are drawn once for a batch, or for each sample");
}

void SampledOptions::check() const {
  HashOptions widest = hash;
  if (bin) widest.bin = static_cast<std::uint32_t>(*bin);
  constexpr std::uint64_t kMostBuckets = std::uint64_t{1} << 24;
  if (widest.buckets() > kMostBuckets) {
    throw with_hint(
        usage_error("--hash-codes: found {}, which make {} buckets, expected at most {}",
                    widest.codes, widest.buckets(), kMostBuckets),
        "make a bucket of fewer codes");
  }
}

HashOptions SampledOptions::hash_of(std::size_t units) const {
  HashOptions fitting = hash;
  const auto most = static_cast<std::uint32_t>(units);
  fitting.bin = bin ? static_cast<std::uint32_t>(*bin) : std::min(hash.bin, most);
  if (hash.kind == HashKind::dwta && fitting.bin > most) {
    throw usage_error("--bin: found {}, expected at most the {} units of the hidden layer",
                      fitting.bin, units);
  }
  return fitting;
}

}  // namespace hetsgd
