// The operators of each collective that `hetsgd bench` runs, and their expected results.
#include <algorithm>

#include "cluster/process_group.hpp"
#include "cluster/reduce.hpp"
#include "collective/adasum.hpp"
#include "collective/all_to_all.hpp"
#include "collective/message_collectives.hpp"
#include "collective_bench.hpp"
#include "core/error.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"

namespace hetsgd {

namespace {

constexpr int kTag = 1;

std::vector<float> sum_of(std::span<const std::vector<float>> inputs) {
  std::vector<float> sum(inputs.front().size());
  std::vector<const void*> in;
  for (const auto& x : inputs) in.push_back(x.data());
  void* out = sum.data();
  reduce_in_rank_order(in, {&out, 1}, 0, sum.size(), Element::float32, ReduceOp::sum);
  return sum;
}

template <AdasumShape shape>
std::vector<float> adasum_at_one_place(std::span<const std::vector<float>> inputs) {
  const std::size_t bounds[] = {0, inputs.front().size()};
  return adasum_of(inputs, bounds, shape);
}

// Makes an operation of a reduction that takes Comm, data and scratch.
template <auto reduce>
BenchOperation make_sum(Endpoint& endpoint, std::size_t) {
  return [&comm = endpoint.comm(), scratch = std::vector<float>()](std::span<float> x) mutable {
    reduce(comm, x, scratch);
  };
}

void own(Comm& comm, std::span<float> x, std::vector<float>&) {
  comm.all_reduce(x, ReduceOp::sum, Traffic::gradients);
}
void native(Comm&, std::span<float> x, std::vector<float>&) {
  joined_processes()->library_all_reduce(x);
}
void ring(Comm& comm, std::span<float> x, std::vector<float>& scratch) {
  ring_all_reduce(comm, kTag, x, scratch, ReduceOp::sum, Traffic::gradients);
}
void halving_doubling(Comm& comm, std::span<float> x, std::vector<float>& scratch) {
  halving_doubling_all_reduce(comm, kTag, x, scratch, ReduceOp::sum, Traffic::gradients);
}
void tree(Comm& comm, std::span<float> x, std::vector<float>& scratch) {
  tree_all_reduce(comm, kTag, x, scratch, ReduceOp::sum, Traffic::gradients);
}

template <AdasumShape shape>
BenchOperation make_adasum(Endpoint& endpoint, std::size_t count) {
  const std::vector<std::size_t> one_tensor = {0, count};
  return [reduce = std::make_shared<AdasumAllReduce>(endpoint, endpoint.comm(), one_tensor, shape)](
             std::span<float> x) { (*reduce)(x, kTag, Traffic::gradients); };
}

// The other collectives, in place in a buffer of `count` elements.
BenchOperation make_reduce_scatter(Endpoint& endpoint, std::size_t) {
  return [&comm = endpoint.comm()](std::span<float> x) {
    comm.reduce_scatter(x, ReduceOp::sum, Traffic::gradients);
  };
}
BenchOperation make_broadcast(Endpoint& endpoint, std::size_t) {
  return
      [&comm = endpoint.comm()](std::span<float> x) { comm.broadcast(x, 0, Traffic::parameters); };
}

// The buffer that a rank sends, with a copy of its input.
std::shared_ptr<Buffer> outgoing(Endpoint& endpoint, std::size_t count) {
  const auto buffer = std::make_shared<Buffer>(endpoint.device(), count);
  const std::vector<float> mine = bench_input(endpoint.rank(), count);
  endpoint.device().upload(buffer->data(), mine.data(), count * sizeof(float));
  endpoint.device().synchronize();
  return buffer;
}

BenchOperation make_all_gather(Endpoint& endpoint, std::size_t count) {
  return [&comm = endpoint.comm(), mine = outgoing(endpoint, count / at(endpoint.size()))](
             std::span<float> x) { comm.all_gather(mine->span(), x, Traffic::parameters); };
}

template <Exchange how>
BenchOperation make_exchange(Endpoint& endpoint, std::size_t count) {
  const std::size_t ranks = at(endpoint.size());
  return [&endpoint, mine = outgoing(endpoint, count),
          counts = std::vector<std::size_t>(ranks, count / ranks)](std::span<float> x) {
    exchange_parts(how, endpoint.comm(), endpoint.device(), kTag,
                   all_to_all<float>(mine->span(), counts, x, counts, Traffic::parameters));
  };
}

// The exchange of the communication library itself.
BenchOperation make_library_exchange(Endpoint& endpoint, std::size_t count) {
  return [mine = outgoing(endpoint, count)](std::span<float> x) {
    joined_processes()->library_all_to_all(mine->span(), x);
  };
}

std::vector<float> first_of(std::span<const std::vector<float>> inputs) { return inputs.front(); }

// The first part of each rank's input, one after the other.
std::vector<float> gathered(std::span<const std::vector<float>> inputs) {
  const std::size_t part = inputs.front().size() / inputs.size();
  std::vector<float> all;
  for (const std::vector<float>& x : inputs)
    all.insert(all.end(), x.begin(), x.begin() + static_cast<std::ptrdiff_t>(part));
  return all;
}

// The expected buffers of rank 0, rank 1, ..., one after the other.
std::vector<float> transposed(std::span<const std::vector<float>> inputs) {
  const std::size_t part = inputs.front().size() / inputs.size();
  std::vector<float> all;
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    for (const std::vector<float>& x : inputs) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(r * part);
      all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(part));
    }
  }
  return all;
}

using Part = BenchCollective::Part;
Part whole(int, int, std::size_t count) { return {0, 0, count}; }
Part own_block(int rank, int workers, std::size_t count) {
  const Block block = block_of(rank, workers, count);
  return {block.begin, block.begin, block.size()};
}
Part own_buffer(int rank, int, std::size_t count) {
  return {0, static_cast<std::size_t>(rank) * count, count};
}

double both_ways(int workers) { return 2.0 * (workers - 1) / workers; }
double one_way(int workers) { return 1.0 * (workers - 1) / workers; }
double all_of_it(int) { return 1; }

std::vector<BenchOperator> all_reduce_operators() {
  constexpr auto kAnywhere = BenchPlace::anywhere, kHost = BenchPlace::host,
                 kGpus = BenchPlace::gpus;
  return {
      {"sum", "the cluster's own all_reduce", make_sum<own>, sum_of, true, kAnywhere},
      {"nccl", "NCCL, between GPUs", make_sum<own>, sum_of, true, kGpus, AllReduce::nccl},
      {"gpu-ring", "a multi-stream ring, between GPUs", make_sum<own>, sum_of, true, kGpus,
       AllReduce::ring},
      {"gpu-tree", "multi-stream trees, between GPUs", make_sum<own>, sum_of, true, kGpus,
       AllReduce::tree},
      {"gpu-mpi", "an MPI library that takes pointers to GPU memory, between GPUs of ranks",
       make_sum<own>, sum_of, true, kGpus, AllReduce::mpi},
      {"gpu-host", "through host memory, between GPUs", make_sum<own>, sum_of, true, kGpus,
       AllReduce::host},
      {"mpi", "MPI_Allreduce itself", make_sum<native>, sum_of, true, BenchPlace::mpi},
      {"ring", "a sum over messages, around a ring", make_sum<ring>, sum_of, true, kHost},
      {"halving-doubling", "a sum over messages, by vector halving and distance doubling",
       make_sum<halving_doubling>, sum_of, true, kHost},
      {"tree", "a sum over messages, to rank 0 and back", make_sum<tree>, sum_of, true, kHost},
      {"adasum", "Adasum as a tree, by vector halving and distance doubling",
       make_adasum<AdasumShape::tree>, adasum_at_one_place<AdasumShape::tree>, false, kAnywhere},
      {"adasum-linear", "Adasum of one rank after the other", make_adasum<AdasumShape::linear>,
       adasum_at_one_place<AdasumShape::linear>, false, kHost}};
}

std::vector<BenchOperator> all_to_all_operators() {
  return {
      {"blocking", "the cluster's own all_to_all, which waits for all workers",
       make_exchange<Exchange::blocking>, transposed, true, BenchPlace::anywhere},
      {"scatter", "posted messages, which do not wait for late workers",
       make_exchange<Exchange::scatter>, transposed, true, BenchPlace::anywhere},
      {"mpi", "MPI_Alltoallv itself", make_library_exchange, transposed, true, BenchPlace::mpi}};
}

// The cluster's own operator, under the name that nccl-tests show in the operator's column.
template <auto make, auto expected>
std::vector<BenchOperator> own_operator(const std::string& name) {
  return {{name, "the cluster's own", make, expected, true, BenchPlace::anywhere}};
}

}  // namespace

const std::vector<BenchCollective>& bench_collectives() {
  static const std::vector<BenchCollective> list = {
      {"all_reduce", "every worker ends with the reduction of all buffers", both_ways, false,
       all_reduce_operators(), whole},
      {"all_gather", "every worker ends with the parts of all", one_way, true,
       own_operator<make_all_gather, gathered>("none"), whole},
      {"reduce_scatter", "every worker ends with its block of the sum of all buffers", one_way,
       false, own_operator<make_reduce_scatter, sum_of>("sum"), own_block},
      {"broadcast", "every worker ends with the buffer of worker 0", all_of_it, false,
       own_operator<make_broadcast, first_of>("none"), whole},
      {"all_to_all", "every worker ends with its part of every buffer", one_way, true,
       all_to_all_operators(), own_buffer, "exchange", "blocking"}};
  return list;
}

const BenchCollective& bench_collective(const std::string& name) {
  const auto found = std::ranges::find(bench_collectives(), name, &BenchCollective::name);
  HETSGD_CHECK(found != bench_collectives().end());
  return *found;
}

const BenchOperator& find_bench_operator(const BenchCollective& collective,
                                         const std::string& option, const std::string& name) {
  std::vector<std::string> names;
  for (const BenchOperator& op : collective.operators) {
    if (op.name == name) return op;
    names.push_back(op.name);
  }
  refuse(option, quote(name), fmt::format("one of {}", alternatives(names)),
         did_you_mean(name, names));
}

}  // namespace hetsgd
