// What `hetsgd bench` prints of its measurements: a table with the columns of nccl-tests, or JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "collective/collective_bench.hpp"
#include "result/table.hpp"

namespace hetsgd {

// What no collective of a size can do without, on real clusters.
struct BenchFloor {
  double time_s = 0;            // median; 0: the clock is simulated
  double peer_bytes_per_s = 0;  // GPUs: as pairs of them exchange buffers
};

// Of one size and operator.
struct BenchRow {
  std::size_t bytes = 0;
  std::string op;
  BenchFloor floor;
  BenchTimes times = {};
  double time_s = 0;  // median
};

// Of all rows.
struct BenchFacts {
  const BenchCollective& collective;
  std::string cluster;
  int workers = 0;
  std::vector<std::string> devices;
  int iterations = 0, warmup = 0;
  bool real = false;                    // the clock is, and there are floors
  bool checked = false;                 // results were compared
  std::string profile, network;         // of a simulated clock
  std::vector<std::string> stragglers;  // none: workers begin together
};

std::string bench_table(const BenchFacts& facts, const std::vector<BenchRow>& rows,
                        TableFormat format);
nlohmann::json bench_json(const BenchFacts& facts, const std::vector<BenchRow>& rows);

}  // namespace hetsgd
