#include "training/run_data.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/host.hpp"
#include "core/text.hpp"
#include "data/images.hpp"
#include "data/select.hpp"

namespace hetsgd {

namespace {

std::vector<Index> rows_of(const RankShare& share, const Dataset& data) {
  // The sampler lives no longer than the data.
  return Sampler(DatasetPtr(DatasetPtr(), &data), share.sampling).shard(share.worker);
}

bool has_shard(const std::optional<RankShare>& share) {
  return share && share->sampling.partition != Partition::shared;
}

// Cuts data that could not be read in parts down to the share: a shard of the training data, and
// one row of the test data.
void keep_share(const RankShare& share, RunData& data) {
  const DatasetPtr train = data.train.data;
  if (has_shard(share) && !train->whole) {
    data.train.data = shard_of(*train, rows_of(share, *train));
  }
  if (!share.measures && !data.test.data->whole) {
    constexpr Index kFirst[] = {0};
    data.test.data = shard_of(*data.test.data, kFirst);
  }
}

HeldOut held_out_of(const TrainOptions& options) {
  if (const auto share = tail_share(options.test)) return {HeldOut::Which::tail, *share};
  if (options.validation > 0) return {HeldOut::Which::random, options.validation};
  return {};
}

void add_remarks(const char* part, const TextCounts& counts, RunData& data) {
  for (const std::string& remark : remarks_on(counts)) {
    data.warnings.push_back(fmt::format("{} text: {}", part, remark));
  }
}

RunData load(const TrainOptions& options, const std::optional<RankShare>& share) {
  LoadOptions load;
  load.format = options.format;
  load.index_base = options.index_base;
  load.cache = options.cache ? CacheMode::use : CacheMode::off;
  load.vocabulary = options.vocabulary;
  load.text = options.text;
  load.held_out = held_out_of(options);
  if (!options.image.empty()) load.image = parse_image_shape("--image", options.image);
  const bool splits = load.held_out.which != HeldOut::Which::none;
  // Held-out rows and measured training data are taken from the whole data.
  const bool whole = splits || (options.test.empty() && share && share->measures);
  if (has_shard(share) && !whole) {
    load.train_rows.rows = [&](const Dataset& outline) { return rows_of(*share, outline); };
    load.train_rows.needs_labels = share->sampling.partition != Partition::iid;
  }
  if (share && !share->measures) {
    load.test_rows.rows = [](const Dataset&) { return std::vector<Index>{0}; };
  }
  if (!options.test.empty() && !splits) return {load_pair(options.train, options.test, load), {}};
  const LoadedData train = load_dataset(options.train, load);
  if (splits) return {hold_out(train, load.held_out), {}};
  return {{train, train}, {"no --test: metrics are measured on the training data"}};
}

}  // namespace

Sampler::Options sampling_of(const TrainOptions& options, int workers) {
  return {.order = options.order,
          .batch = options.batch_size,
          .partition = options.partition,
          .seed = options.seed,
          .workers = workers,
          .alpha = options.dirichlet_alpha,
          .augmentation = options.augment};
}

std::optional<RankShare> share_of(const TrainOptions& options, int workers) {
  const int others = options.service_rank ? 1 : 0;
  ProcessGroup& processes = options.processes();
  if (processes.control() == nullptr || processes.size() != workers + others) return std::nullopt;
  // A rank without a worker needs the data's shape, as any other does.
  return RankShare{.worker = std::min(processes.rank(), workers - 1),
                   .sampling = sampling_of(options, workers),
                   .measures = processes.is_root()};
}

RunData load_run_data(const TrainOptions& options, const std::optional<RankShare>& share) {
  const auto start = HostClock::now();
  RunData data = load(options, share);
  add_remarks("training", data.train.report.text, data);
  if (data.test.data != data.train.data) add_remarks("test", data.test.report.text, data);
  const std::vector<std::string>& found = data.test.report.warnings;
  data.warnings.insert(data.warnings.end(), found.begin(), found.end());
  if (share) keep_share(*share, data);
  data.load_s = seconds_since(start);
  return data;
}

std::string data_key(const TrainOptions& options, const std::optional<RankShare>& share) {
  nlohmann::json key = {json_text(options.train),
                        json_text(options.test),
                        options.validation,
                        options.format,
                        options.index_base,
                        options.vocabulary.min_frequency.value_or(0),
                        options.vocabulary.hash_size.value_or(0),
                        json_text(options.image),
                        key_of(options.text)};
  if (share) {
    const Sampler::Options& sampling = share->sampling;
    key.push_back({share->worker, share->measures, sampling.order, sampling.partition,
                   sampling.seed, sampling.workers, sampling.alpha});
  }
  return key.dump();
}

const RunData& DataCache::get(const TrainOptions& options, const std::optional<RankShare>& share) {
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    entry = &entries_[data_key(options, share)];
  }
  const std::lock_guard lock(entry->mutex);
  if (!entry->data) entry->data = load_run_data(options, share);
  return *entry->data;
}

}  // namespace hetsgd
