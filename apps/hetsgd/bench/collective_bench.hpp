// Times the collectives of Comm by operator and size, as nccl-tests do, for `hetsgd bench
// all_reduce` and the other collectives.
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

// One rank's side of a collective in one buffer of its device's memory, with its scratch memory.
// The initial content of the buffer is this rank's input.
using BenchOperation = std::function<void(std::span<float> x)>;

// The kind of workers that an operator needs.
enum class BenchPlace {
  anywhere,
  host,  // workers on cores, since it needs host memory
  gpus,  // all workers on GPUs; ring and tree need one process, mpi needs ranks
  mpi,   // ranks of --cluster mpi, on cores
};

struct BenchOperator {
  std::string name;  // --op
  std::string help;
  BenchOperation (*make)(Endpoint& endpoint, std::size_t count);
  // The expected content of the ranks' buffers, computed in one place from all inputs.
  std::vector<float> (*expected)(std::span<const std::vector<float>> inputs);
  // Whether the result must be exact. Sums of the inputs are, in any order. Adasum's products are
  // not: its elements may be off by a few units in the last place.
  bool exact;
  BenchPlace place;
  AllReduce method = AllReduce::automatic;
};

// A collective of Comm. Size and bandwidth are defined as in nccl-tests. The size is that of the
// largest buffer of a rank, in all_gather the gathered one. The bus bandwidth is size / time *
// bus_factor. The factor is the share of the size that every link must carry.
struct BenchCollective {
  std::string name;
  std::string summary;
  double (*bus_factor)(int workers);
  bool in_parts;  // sizes are multiples of the number of workers
  std::vector<BenchOperator> operators;
  // The part of a rank's buffer that has a defined result, and its place in `expected`. Unit:
  // elements.
  struct Part {
    std::size_t begin = 0, expected_begin = 0, size = 0;
  };
  Part (*part)(int rank, int workers, std::size_t count);
  // For collectives with several operators: the option that names them, and the text in its help
  // about the default.
  std::string option = "op";
  std::string default_operators = "sum and adasum, on GPUs also every gpu operator";
};

// all_reduce, all_gather, reduce_scatter, broadcast (from rank 0), all_to_all.
const std::vector<BenchCollective>& bench_collectives();
const BenchCollective& bench_collective(const std::string& name);  // name: one of these (checked)

// The operator of this name. all_reduce has sum (the cluster's own all_reduce), and its methods
// between GPUs: nccl, gpu-ring, gpu-tree, gpu-mpi and gpu-host. It also has mpi (MPI_Allreduce
// itself), the sums over messages ring, halving-doubling and tree, and adasum and adasum-linear
// (one tensor). all_to_all has blocking (the cluster's own), scatter (all_to_all.hpp) and mpi
// (MPI_Alltoallv itself). The other collectives have only the cluster's own operator. Throws
// Error(usage) for an unknown name, opening with `option` and listing the operators, nearest
// spelling first.
const BenchOperator& find_bench_operator(const BenchCollective& collective,
                                         const std::string& option, const std::string& name);

struct BenchTimes {
  std::vector<double> time_s;  // per iteration: the longest time of any rank
  // Per iteration: the time from a rank's arrival at the call to its return, as the mean over the
  // ranks. It is less than time_s if a straggler scenario lets ranks arrive late.
  std::vector<double> in_call_s;
  std::uint64_t wrong = 0;  // wrong elements of all ranks after the last iteration
};

class CollectiveBench {
 public:
  // Iterations: at least 1.
  CollectiveBench(std::string cluster, ClusterOptions options, int iterations, int warmup);

  // Fills every rank's buffer of `count` elements with its input and makes a barrier. Then it times
  // the delays of options.scenario, if there are any, together with the collective. If `check`, the
  // result is checked afterwards. For a collective in parts `count` is a multiple of the number of
  // workers.
  BenchTimes measure(const BenchCollective& collective, const BenchOperator& op, std::size_t count,
                     bool check) const;
  // The limit by memory: all ranks at the same time add 1 to their buffers, which reads and writes
  // each once. The scenario's delays are left out.
  BenchTimes floor(std::size_t count) const;
  // The limit by links: pairs of ranks, 0 and 1, 2 and 3, ..., exchange their buffers, all at the
  // same time. The scenario's delays are left out.
  BenchTimes sendrecv(std::size_t count) const;

 private:
  CollectiveBench with_nobody_late() const;
  // set_up(endpoint) returns the operation; count_errors(endpoint, content) returns the number of
  // wrong elements afterwards.
  template <class SetUp, class CountErrors>
  BenchTimes run(AllReduce method, std::size_t count, SetUp set_up, CountErrors count_errors) const;

  std::string cluster_;
  ClusterOptions options_;
  int iterations_, warmup_;
};

// A rank's input: multiples of 1/64 in [-1, 1), whose sums over up to 2^17 ranks are exact. A
// shorter input is the beginning of a longer one.
std::vector<float> bench_input(int rank, std::size_t count);

// The number of elements that differ from `expected` by more than `tolerance`, or are NaN.
std::uint64_t count_wrong(std::span<const float> x, std::span<const float> expected,
                          double tolerance);

}  // namespace hetsgd
