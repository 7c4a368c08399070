#include "cluster/cuda/nccl_group.hpp"

#ifdef HETSGD_NCCL
#include <atomic>
#include <mutex>
#include <thread>

#include "cluster/cuda/nccl.hpp"
#include "cluster/cuda/ring_group.hpp"
#include "core/error.hpp"
#endif

namespace hetsgd::cuda {

#ifndef HETSGD_NCCL

std::unique_ptr<GpuGroup> make_nccl_group(std::vector<int>, const GpuGroupOptions&) {
  return nullptr;
}

#else

namespace {

ncclDataType_t type_of(Element element) {
  switch (element) {
    case Element::float32:
      return ncclFloat32;
    case Element::float64:
      return ncclFloat64;
    case Element::int64:
      return ncclInt64;
    case Element::byte:
      return ncclUint8;
  }
  return ncclUint8;
}

ncclRedOp_t op_of(ReduceOp op) {
  return op == ReduceOp::sum ? ncclSum : op == ReduceOp::max ? ncclMax : ncclMin;
}

class NcclGroup final : public GpuGroup {
 public:
  NcclGroup(std::vector<int> gpus, const GpuGroupOptions& options)
      : gpus_(std::move(gpus)), ring_(gpus_, options), members_(gpus_.size()) {}

  ~NcclGroup() override {
    for (Member& member : members_) {
      if (member.comm == nullptr) continue;
      failed_ ? nccl_.abort(member.comm) : nccl_.destroy(member.comm);
    }
  }

  AllReduce method() const override { return AllReduce::nccl; }

  void move(int rank, const CollectiveCall& call, std::span<const void* const> in,
            std::span<void* const> out) override {
    if (call.count == 0) return;
    const auto r = static_cast<std::size_t>(rank);
    try {
      std::call_once(made_, [&] { make_comms(); });
      Member& me = members_[r];
      HETSGD_CUDA(cudaSetDevice(gpus_[r]));
      if (!me.stream) me.stream = std::make_unique<Stream>();
      start(rank, call, in[r], out[r]);
      complete(me);
    } catch (...) {
      failed_ = true;  // nobody's kernel waits for this rank's any more
      throw;
    }
  }

  void fetch(int rank, int from, const void* source, void* target, std::size_t bytes) override {
    ring_.fetch(rank, from, source, target, bytes);
  }

 private:
  struct Member {
    ncclComm_t comm = nullptr;
    std::unique_ptr<Stream> stream;
  };

  void make_comms() {
    std::vector<ncclComm_t> comms(gpus_.size());
    nccl_.check(nccl_.init_all(comms.data(), static_cast<int>(comms.size()), gpus_.data()),
                "ncclCommInitAll");
    for (std::size_t r = 0; r < comms.size(); ++r) members_[r].comm = comms[r];
  }

  void start(int rank, const CollectiveCall& call, const void* in, void* out) {
    const Member& me = members_[static_cast<std::size_t>(rank)];
    const cudaStream_t stream = me.stream->get();
    const ncclDataType_t type = type_of(call.element);
    const ncclRedOp_t op = op_of(call.op);
    switch (call.collective) {
      case Collective::all_reduce:
        return nccl_.check(nccl_.all_reduce(in, out, call.count, type, op, me.comm, stream),
                           "ncclAllReduce");
      case Collective::broadcast: {
        void* const buffer = rank == call.root ? const_cast<void*>(in) : out;
        return nccl_.check(
            nccl_.broadcast(buffer, buffer, call.count, ncclUint8, call.root, me.comm, stream),
            "ncclBroadcast");
      }
      case Collective::all_gather:
        return nccl_.check(nccl_.all_gather(in, out, call.count, ncclUint8, me.comm, stream),
                           "ncclAllGather");
      case Collective::reduce_scatter:
        return reduce_scatter(rank, call, static_cast<std::byte*>(out));
      default:
        throw CheckFailure("a collective without data between GPUs");
    }
  }

  // NCCL's own has blocks of one size; where they differ, a reduction to each rank does it.
  void reduce_scatter(int rank, const CollectiveCall& call, std::byte* data) {
    const Member& me = members_[static_cast<std::size_t>(rank)];
    const cudaStream_t stream = me.stream->get();
    const int p = static_cast<int>(gpus_.size());
    const std::size_t width = element_bytes(call.element);
    const ncclDataType_t type = type_of(call.element);
    const ncclRedOp_t op = op_of(call.op);
    if (call.count % gpus_.size() == 0) {
      std::byte* const mine = data + block_of(rank, p, call.count).begin * width;
      return nccl_.check(
          nccl_.reduce_scatter(data, mine, call.count / gpus_.size(), type, op, me.comm, stream),
          "ncclReduceScatter");
    }
    nccl_.check(nccl_.group_start(), "ncclGroupStart");
    ncclResult_t result = ncclSuccess;
    for (int root = 0; root < p && result == ncclSuccess; ++root) {
      const Block block = block_of(root, p, call.count);
      std::byte* const part = data + block.begin * width;
      if (block.size() == 0) continue;
      result = nccl_.reduce(part, part, block.size(), type, op, root, me.comm, stream);
    }
    const ncclResult_t end = nccl_.group_end();
    nccl_.check(result, "ncclReduce");
    nccl_.check(end, "ncclGroupEnd");
  }

  // Returns when the stream is empty, or when another rank has failed and its share never comes.
  void complete(Member& me) {
    while (true) {
      const cudaError_t status = cudaStreamQuery(me.stream->get());
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) fail(status, "NCCL's kernels");
      static_cast<void>(cudaGetLastError());  // not ready is no error for what comes next
      if (failed_) {
        nccl_.abort(std::exchange(me.comm, nullptr));
        return;
      }
      ncclResult_t result = ncclSuccess;
      nccl_.check(nccl_.async_error(me.comm, &result), "ncclCommGetAsyncError");
      nccl_.check(result, "NCCL");
      std::this_thread::yield();
    }
  }

  const Nccl& nccl_ = Nccl::get();
  const std::vector<int> gpus_;
  RingGroup ring_;  // for what NCCL does not do
  std::once_flag made_;
  std::vector<Member> members_;
  std::atomic<bool> failed_ = false;
};

}  // namespace

std::unique_ptr<GpuGroup> make_nccl_group(std::vector<int> gpus, const GpuGroupOptions& options) {
  return std::make_unique<NcclGroup>(std::move(gpus), options);
}

#endif

}  // namespace hetsgd::cuda
