// Times of the collectives of Comm by operator and size, as nccl-tests measure
// them: `hetsgd bench all_reduce` and its relatives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cluster/cluster.hpp"
#include "cluster/endpoint.hpp"
#include "core/units.hpp"

namespace hetsgd {

// One rank's side of a collective in one buffer of its device's memory, with
// its scratch memory. What the buffer holds before is this rank's input.
using BenchOperation = std::function<void(std::span<float> x)>;

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
  BenchOperation (*make)(Endpoint& endpoint, std::size_t count);
  // What all ranks' buffers come to, made at one place of all inputs.
  std::vector<float> (*expected)(std::span<const std::vector<float>> inputs);
  // Sums of the inputs are exact in any order. Adasum's products are not: its
  // numbers may be off by a few units in the last place.
  bool exact;
  BenchPlace place;
  AllReduce method = AllReduce::automatic;
};

// A collective of Comm. What its times are set in relation to follows
// nccl-tests: the size is that of the largest buffer of a rank, in all_gather
// the gathered one; the bus bandwidth is the size over the time, times
// bus_factor, the share that every link carries at least.
struct BenchCollective {
  std::string name;
  std::string summary;
  double (*bus_factor)(int workers);
  bool in_parts;  // sizes are multiples of the number of workers
  std::vector<BenchOperator> operators;
  // What of a rank's buffer is right afterwards, and where `expected` has it.
  struct Part {
    std::size_t begin = 0, expected_begin = 0, size = 0;
  };
  Part (*part)(int rank, int workers, std::size_t count);
  // Of several operators: the option that names them, and what it says of those that are taken
  // where it is not given.
  std::string option = "op";
  std::string default_operators = "sum and adasum, on GPUs all of theirs";
};

// all_reduce, all_gather, reduce_scatter, broadcast (from rank 0), all_to_all.
const std::vector<BenchCollective>& bench_collectives();
const BenchCollective& bench_collective(const std::string& name);  // one of these (checked)

// Of all_reduce: sum (the cluster's own all_reduce), nccl, gpu-ring, gpu-tree, gpu-mpi, gpu-host
// (the same between GPUs, by each of its methods), mpi (MPI_Allreduce itself), ring,
// halving-doubling, tree (sums over messages), adasum, adasum-linear (one tensor). Of all_to_all:
// blocking (the cluster's own), scatter (all_to_all.hpp) and mpi (MPI_Alltoallv itself). The others
// have the cluster's own operator alone. Errors: usage; lists the collective's operators, nearest
// spelling first. `option` opens the message.
const BenchOperator& find_bench_operator(const BenchCollective& collective,
                                         const std::string& option, const std::string& name);

struct BenchTimes {
  std::vector<double> time_s;  // per iteration: of the rank that took longest
  // Per iteration: from a rank's arrival at the call to its end there, mean over the ranks. Less
  // than time_s where a straggler scenario lets ranks arrive late.
  std::vector<double> in_call_s;
  std::uint64_t wrong = 0;  // numbers, over all ranks, after the last iteration
};

class CollectiveBench {
 public:
  // Iterations: at least 1.
  CollectiveBench(std::string cluster, ClusterOptions options, int iterations, int warmup);

  // Every rank's buffer of `count` numbers is filled with its input, then a barrier, then the
  // delays of options.scenario, if there are any, and the collective, which are timed. Checked
  // afterwards if `check`. count: of a collective in parts a multiple of the number of workers.
  BenchTimes measure(const BenchCollective& collective, const BenchOperator& op, std::size_t count,
                     bool check) const;
  // What memory allows: each rank adds 1 to its buffer, all at the same time,
  // and so reads and writes it once. Without the scenario's delays.
  BenchTimes floor(std::size_t count) const;
  // Pairs of ranks, 0 and 1, 2 and 3, ..., exchange their buffers, all pairs at
  // the same time. Without the scenario's delays.
  BenchTimes sendrecv(std::size_t count) const;

 private:
  CollectiveBench with_nobody_late() const;
  // set_up(endpoint): the operation; count_errors(endpoint, content): wrong
  // numbers afterwards.
  template <class SetUp, class CountErrors>
  BenchTimes run(AllReduce method, std::size_t count, SetUp set_up, CountErrors count_errors) const;

  std::string cluster_;
  ClusterOptions options_;
  int iterations_, warmup_;
};

// A rank's input: multiples of 1/64 in [-1, 1), whose sums over up to 2^17 ranks are exact. A
// shorter one is the beginning of a longer one.
std::vector<float> bench_input(int rank, std::size_t count);

// How many numbers differ from `expected` by more than `tolerance`, or are no
// numbers.
std::uint64_t count_wrong(std::span<const float> x, std::span<const float> expected,
                          double tolerance);

}  // namespace hetsgd
