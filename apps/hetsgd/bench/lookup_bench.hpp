// The embedding part of a training step alone, on one worker, as `hetsgd bench lookup` times it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hetsgd {

struct LookupBenchOptions {
  std::uint64_t rows = 4'000'000;  // of all fields together, equal shares
  std::uint64_t fields = 26;
  std::uint64_t embedding = 16;  // D
  bool own_weight = false;       // C = D + 1
  double zipf = 1.1;             // exponent of the ids' distribution; 0: uniform
  int cores = 1;
  std::optional<int> gpu = {};  // GPU that has the rows and computes; none: cores
  int iterations = 20;          // timed iterations
  int warmup = 3;
  bool dedup = true;
  std::uint64_t seed = 1;
};

// Wall-clock times of the stages of a batch (stages.hpp), by iteration, in seconds. On a GPU a
// stage ends when the GPU is idle.
struct LookupTimes {
  std::vector<double> request, look_up, spread, sum, update;
  // Reference times, measured after the stages of a batch; empty on a GPU. random_reads reads as
  // many cache lines as look_up does (with several cores, the part of one) from random places of a
  // table of this size, with prefetch. random_copies also writes these lines contiguously, as a
  // gather must.
  std::vector<double> random_reads, random_copies;
  std::uint64_t lookups = 0;  // per batch
  double entries = 0;         // mean number of rows per batch
};

// A table of random rows and batches of random ids. Between look_up and spread, and between sum and
// update, the worker exchanges with itself. These copies are not timed.
class LookupBench {
 public:
  // Throws Error(usage) for fewer rows than fields, Error(device) for a missing GPU, and what
  // TableSet throws.
  explicit LookupBench(const LookupBenchOptions& options);
  ~LookupBench();

  // Times the stages of batches of `batch_size` samples, with the row rule of sgd.
  LookupTimes measure(std::uint64_t batch_size) const;
  // The upper limit for a gather, in bytes per second. On cores it is their rate of reading cache
  // lines of 64 bytes at random places of the table with prefetch, summed over the cores. On a GPU
  // it is the bytes that a copy within its memory reads and writes.
  double memory_bytes_per_s() const;
  // Bytes that the gather and the update by sgd move for a row, as means over the rows. They count
  // whole cache lines, or on a GPU sectors of 32 bytes, at the place of the row in the table. On a
  // GPU all other reads and writes count, too, since the copy in memory_bytes_per_s() also has
  // them.
  double gather_bytes_per_row() const;
  double update_bytes_per_row() const;
  // The fewest bytes that an update of a batch (sums and row rule) moves: the gradients of its
  // lookups, their row numbers, and the cache lines of its rows, read and written.
  double update_bytes(const LookupTimes& times) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsgd
