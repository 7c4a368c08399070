// The training and test data of a run, and a cache that shares them among several runs.
//
// Where each worker is a process, none of them holds more than it needs:
//
//                        training data                    test data
//   rank 0               its shard (shared: all rows)     all rows: it measures
//   others               their shards (shared: all rows)  one row
//   a rank of services   the last worker's shard          one row
//
// Shapes and totals are those of the whole data on every rank (Dataset::whole, totals()), because
// models and plans must be the same on all of them. A source that cannot be read in parts is read
// as a whole and cut down. So is a source whose held-out rows or training rows are measured.
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
// `test` has the rows of --test, those that --validation holds out, or the training data again.
struct RunData : LoadedPair {
  std::vector<std::string> warnings;
  double load_s = 0;  // wall-clock time
};

// The part of the data that one process needs if each worker is a process of its own.
struct RankShare {
  int worker = 0;             // this process keeps only the training rows of this worker's shard
  Sampler::Options sampling;  // with Partition::shared it keeps all rows
  bool measures = false;      // if not, one test row stands for all
};

// How the rows are divided among the workers and ordered: a function of the options alone, so every
// rank finds its shard without asking.
Sampler::Options sampling_of(const TrainOptions& options, int workers);

// The share of this process if it is one of several that run one of `workers` workers each. It is
// empty if the workers share memory, or if the number of processes does not fit (make_cluster()
// refuses that). Joins the processes unless they have joined before.
std::optional<RankShare> share_of(const TrainOptions& options, int workers);

// Reads files or generates data; load_s is the wall-clock time of that. Without `share` it reads
// everything. Without --test a warning says which rows are measured instead. Throws Error(data) or
// Error(usage).
RunData load_run_data(const TrainOptions& options, const std::optional<RankShare>& share = {});

// Equal for options that mean the same data.
std::string data_key(const TrainOptions& options, const std::optional<RankShare>& share = {});

// The data of several runs of one process: read when the first of them asks, kept until the cache
// ends. Thread-safe: runs that need the same data wait for one of them to read.
class DataCache {
 public:
  // Returns load_run_data(options, share). If reading fails, the next caller tries again. The
  // result is valid as long as the cache. load_s is the time of the one reading, for each run that
  // uses it.
  const RunData& get(const TrainOptions& options, const std::optional<RankShare>& share = {});

 private:
  // The lock is held while the data are read, so that callers wait only for the data they need.
  struct Entry {
    std::mutex mutex;
    std::optional<RunData> data;
  };
  // The key is data_key(). Entries keep their address while others are added.
  std::mutex mutex_;  // guards the map
  std::map<std::string, Entry> entries_;
};

}  // namespace hetsgd
