// What a run learns from and is measured on, and how several runs share it.
//
// Where each worker is a process, none of them holds more than it needs:
//
//                        training data                    test data
//   rank 0               its shard (shared: all rows)     all rows: it measures
//   others               their shards (shared: all rows)  one row
//   a rank of services   the last worker's shard          one row
//
// Shapes and totals are those of the whole data everywhere (Dataset::whole, totals()): models and
// plans must be the same on all ranks. A source that cannot be read in parts is read as a whole and
// cut down; so is one whose held-out rows, or whose training rows, are measured.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/load.hpp"
#include "data/sampler.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

// Cheap to copy: the data sets are shared and const.
struct RunData {
  LoadedData train;
  LoadedData test;  // --test, the rows that --validation holds out, or the training data again
  std::vector<std::string> warnings;
  double load_s = 0;  // host time
};

// What one process needs of the data, where each worker is a process of its own.
struct RankShare {
  int worker = 0;             // learns from this worker's shard, and keeps no other rows of it
  Sampler::Options sampling;  // Partition::shared: from all rows
  bool measures = false;      // if not, one test row stands for all
};

// How the rows are divided among the workers and ordered: a function of the options alone, so every
// rank finds its shard without asking.
Sampler::Options sampling_of(const TrainOptions& options, int workers);

// The share of this process if it is one of several, each of which runs one of `workers` workers;
// empty where the workers share memory, and where the number of processes does not fit
// (make_cluster() refuses that). Joins the processes if that has not been done.
std::optional<RankShare> share_of(const TrainOptions& options, int workers);

// `share`: unset: everything. Reads files or generates data, on host time (load_s); without --test
// a warning says what is measured instead. Errors: data, usage.
RunData load_run_data(const TrainOptions& options, const std::optional<RankShare>& share = {});

// Equal for options that mean the same data.
std::string data_key(const TrainOptions& options, const std::optional<RankShare>& share = {});

// The data of several runs of one process: read when the first of them asks, kept until the cache
// ends. Thread-safe: runs that need the same data wait for one of them to read.
class DataCache {
 public:
  // load_run_data(options, share). A failed reading is tried again by the next that asks. The
  // result is good as long as the cache; load_s is what the one reading took, for each run that
  // uses it.
  const RunData& get(const TrainOptions& options, const std::optional<RankShare>& share = {});

 private:
  // Locked while it is read, so that others wait for these data and not for all.
  struct Entry {
    std::mutex mutex;
    std::optional<RunData> data;
  };
  // By what the options say of the data; entries stay where they are while others are added.
  std::mutex mutex_;  // guards the map
  std::map<std::string, Entry> entries_;
};

}  // namespace hetsgd
