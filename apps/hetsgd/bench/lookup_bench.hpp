// The embedding part of a training step by itself, on one worker: what `hetsgd bench lookup` times.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hetsgd {

struct LookupBenchOptions {
  std::uint64_t rows = 4'000'000;  // of all fields together, equally many of each
  std::uint64_t fields = 26;
  std::uint64_t embedding = 16;  // D
  bool own_weight = false;       // C = D + 1
  double zipf = 1.1;             // exponent of the ids' law; 0: uniform
  int cores = 1;
  std::optional<int> gpu = {};  // which has the rows and computes; none: cores
  int iterations = 20;          // timed
  int warmup = 3;
  bool dedup = true;
  std::uint64_t seed = 1;
};

// Host times of the stages of a batch (tables.hpp), by iteration, in seconds; those of a GPU end
// when it has nothing to do.
struct LookupTimes {
  std::vector<double> request, look_up, spread, sum, update;
  // None of a GPU. After the stages of a batch: as many cache lines as look_up reads of rows (of
  // several cores: the part of one), each asked for ahead of time, from random places of a table
  // of this size; and such lines copied one behind the other, as a gather must.
  std::vector<double> random_reads, random_copies;
  std::uint64_t lookups = 0;  // of a batch
  double entries = 0;         // rows of a batch, mean
};

// A table of random rows and batches of random ids. One exchange of a worker with itself lies
// between look_up and spread, and between sum and update: copies, which are not timed.
class LookupBench {
 public:
  // Errors: usage, fewer rows than fields; device, no such GPU; those of TableSet.
  explicit LookupBench(const LookupBenchOptions& options);
  ~LookupBench();

  // The stages of batches of so many samples, with the row rule of sgd.
  LookupTimes measure(std::uint64_t batch_size) const;
  // What no gather can beat. Bytes per second at which one core reads cache lines of 64 bytes at
  // random places of the table, each asked for ahead of time; several cores: their sum. Of a GPU
  // the bytes that a copy within its memory reads and writes.
  double memory_bytes_per_s() const;
  // Bytes that the gather moves for a row, and the update by sgd, in whole cache lines, of a GPU
  // sectors of 32 bytes, where a row lies in the table; mean over the rows. What else is read and
  // written counts for a GPU, since it is there what a copy moves as well.
  double gather_bytes_per_row() const;
  double update_bytes_per_row() const;
  // What an update of a batch cannot do without, sums and row rule together: the bytes of the
  // gradients of its lookups and of their numbers, and its rows' cache lines, read and written.
  double update_bytes(const LookupTimes& times) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hetsgd
