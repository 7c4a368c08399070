// Times of all_reduce by operator and size, as nccl-tests measure them: `hetsgd bench all_reduce`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/endpoint.hpp"
#include "core/units.hpp"

namespace hetsgd {

// One rank's all_reduce of one buffer in its device's memory, with its scratch memory.
class BenchReduction {
 public:
  virtual ~BenchReduction() = default;
  virtual void operator()(std::span<float> x) = 0;
};

// What the workers must be for an operator.
enum class BenchPlace {
  anywhere,
  host,  // on cores: it works on host memory
  gpus,  // on GPUs, all of them; ring and tree: of one process, mpi: ranks
  mpi,   // ranks of --cluster mpi, on cores
};

struct BenchOperator {
  std::string name;  // --op
  std::string help;
  std::unique_ptr<BenchReduction> (*make)(Endpoint& endpoint, std::size_t count);
  // The same of all ranks' vectors at one place.
  std::vector<float> (*expected)(std::span<const std::vector<float>> inputs);
  // Sums of the inputs are exact in any order. Adasum's products are not: its numbers may be off by
  // a few units in the last place.
  bool exact;
  BenchPlace place;
  AllReduce method = AllReduce::automatic;
};

// sum (the cluster's own all_reduce), nccl, gpu-ring, gpu-tree, gpu-mpi, gpu-host (the same between
// GPUs, by each of its methods), mpi (MPI_Allreduce itself), ring, halving-doubling, tree (sums over
// messages), adasum, adasum-linear (one tensor).
const std::vector<BenchOperator>& bench_operators();
// Errors: usage; lists the known names, nearest spelling first. `option` opens the message.
const BenchOperator& find_bench_operator(const std::string& option, const std::string& name);

struct BenchTimes {
  std::vector<double> time_s;  // per iteration: of the rank that took longest
  std::uint64_t wrong = 0;     // numbers, over all ranks, after the last iteration
};

class AllReduceBench {
 public:
  // Iterations: at least 1.
  AllReduceBench(std::string cluster, ClusterOptions options, int iterations, int warmup);

  // Every rank's buffer of `count` numbers is filled with its input, then a barrier, then the
  // reduction, which alone is timed. Checked afterwards if `check`.
  BenchTimes measure(const BenchOperator& op, std::size_t count, bool check) const;
  // What memory allows: each rank adds 1 to its buffer, all at the same time, and so reads and
  // writes what any all_reduce must read and write, once.
  BenchTimes floor(std::size_t count) const;
  // Pairs of ranks, 0 and 1, 2 and 3, ..., exchange their buffers, all pairs at the same time.
  BenchTimes sendrecv(std::size_t count) const;

 private:
  template <class SetUp>
  BenchTimes run(AllReduce method, std::size_t count, SetUp set_up,
                 const std::vector<float>* expected, double tolerance) const;

  std::string cluster_;
  ClusterOptions options_;
  int iterations_, warmup_;
};

// How many numbers differ from `expected` by more than `tolerance`, or are no numbers.
std::uint64_t count_wrong(std::span<const float> x, std::span<const float> expected,
                          double tolerance);

}  // namespace hetsgd
