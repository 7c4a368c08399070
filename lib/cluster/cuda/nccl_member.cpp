#include "cluster/cuda/nccl_member.hpp"

#ifdef HETSGD_NCCL
#include <utility>

#include "core/error.hpp"

namespace hetsgd::cuda {

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

}  // namespace

NcclMember::NcclMember(ncclComm_t comm, int gpu, int rank, int size)
    : comm_(comm), gpu_(gpu), rank_(rank), size_(size) {}

NcclMember::~NcclMember() {
  if (pending_) abort();
  if (comm_ != nullptr) nccl_.destroy(comm_);
}

void NcclMember::abort() noexcept {
  if (comm_ != nullptr) nccl_.abort(std::exchange(comm_, nullptr));
}

void NcclMember::start(const CollectiveCall& call, const void* in, void* out) {
  HETSGD_CHECK(comm_ != nullptr);
  HETSGD_CUDA(cudaSetDevice(gpu_));
  pending_ = true;
  nccl_.check(launch(call, in, out), collective_name(call.collective));
}

ncclResult_t NcclMember::launch(const CollectiveCall& call, const void* in, void* out) {
  const cudaStream_t stream = stream_.get();
  switch (call.collective) {
    case Collective::all_reduce:
      return nccl_.all_reduce(in, out, call.count, type_of(call.element), op_of(call.op), comm_,
                              stream);
    case Collective::broadcast: {
      void* const buffer = rank_ == call.root ? const_cast<void*>(in) : out;
      return nccl_.broadcast(buffer, buffer, call.count, ncclUint8, call.root, comm_, stream);
    }
    case Collective::all_gather:
      return nccl_.all_gather(in, out, call.count, ncclUint8, comm_, stream);
    case Collective::reduce_scatter:
      return reduce_scatter(call, static_cast<std::byte*>(out));
    case Collective::all_to_all:
      return all_to_all(*static_cast<const AllToAll*>(in));
    default:
      throw CheckFailure("a collective without data between GPUs");
  }
}

// NCCL's own reduce_scatter has blocks of one size; where the blocks differ, a reduction to each
// rank does it.
ncclResult_t NcclMember::reduce_scatter(const CollectiveCall& call, std::byte* data) {
  const std::size_t width = element_bytes(call.element);
  const ncclDataType_t type = type_of(call.element);
  const ncclRedOp_t op = op_of(call.op);
  const auto p = static_cast<std::size_t>(size_);
  if (call.count % p == 0) {
    std::byte* const mine = data + block_of(rank_, size_, call.count).begin * width;
    return nccl_.reduce_scatter(data, mine, call.count / p, type, op, comm_, stream_.get());
  }
  nccl_.check(nccl_.group_start(), "ncclGroupStart");
  ncclResult_t result = ncclSuccess;
  const auto failed = [&] { return result != ncclSuccess && result != ncclInProgress; };
  for (int root = 0; root < size_ && !failed(); ++root) {
    const Block block = block_of(root, size_, call.count);
    std::byte* const part = data + block.begin * width;
    if (block.size() == 0) continue;
    result = nccl_.reduce(part, part, block.size(), type, op, root, comm_, stream_.get());
  }
  const ncclResult_t end = nccl_.group_end();
  return failed() ? result : end;
}

// The own part is copied; all others travel at once.
ncclResult_t NcclMember::all_to_all(const AllToAll& mine) {
  const auto own = mine.room_for(rank_);
  if (!own.empty()) {
    HETSGD_CUDA(cudaMemcpyAsync(own.data(), mine.part_for(rank_).data(), own.size(),
                                cudaMemcpyDeviceToDevice, stream_.get()));
  }
  nccl_.check(nccl_.group_start(), "ncclGroupStart");
  ncclResult_t result = ncclSuccess;
  const auto failed = [&] { return result != ncclSuccess && result != ncclInProgress; };
  for (int step = 1; step < size_ && !failed(); ++step) {
    const int to = (rank_ + step) % size_, from = (rank_ + size_ - step) % size_;
    const auto part = mine.part_for(to);
    const auto room = mine.room_for(from);
    if (!part.empty()) {
      result = nccl_.send(part.data(), part.size(), ncclUint8, to, comm_, stream_.get());
    }
    if (!room.empty() && !failed()) {
      result = nccl_.receive(room.data(), room.size(), ncclUint8, from, comm_, stream_.get());
    }
  }
  const ncclResult_t end = nccl_.group_end();
  return failed() ? result : end;
}

bool NcclMember::done() {
  HETSGD_CHECK(comm_ != nullptr);
  ncclResult_t result = ncclSuccess;
  nccl_.check(nccl_.async_error(comm_, &result), "ncclCommGetAsyncError");
  nccl_.check(result, "NCCL");
  if (result == ncclInProgress) return false;  // a call has not even launched its kernels
  const cudaError_t status = cudaStreamQuery(stream_.get());
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // no error for what comes next
    return false;
  }
  if (status != cudaSuccess) fail(status, "NCCL's kernels");
  pending_ = false;
  return true;
}

}  // namespace hetsgd::cuda
#endif
