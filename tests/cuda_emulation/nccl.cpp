// An emulated libnccl. A collective is an operation of each rank's stream; they run as one, in rank
// order, once all streams have come to theirs. Sends are buffered: what would hang for want of a
// group of sends and receives does not hang here.
#include <algorithm>
#include <cstring>

#include "nccl_clique.hpp"
#include "nccl_reduce.hpp"

namespace hetsgd_emulation {

namespace {

void perform(const std::vector<Call>& calls) {
  const Call& first = calls.front();
  const std::size_t ranks = calls.size(), size = nccl_size(first.type), bytes = first.count * size;
  std::vector<const char*> sent;
  for (const Call& call : calls) sent.push_back(static_cast<const char*>(call.send));
  switch (first.what) {
    case Call::What::all_reduce:
    case Call::What::reduce: {
      const std::vector<char> sum = nccl_reduce(sent, 0, first.count, first.type, first.op);
      for (std::size_t r = 0; r < ranks; ++r) {
        if (first.what == Call::What::reduce && static_cast<int>(r) != first.root) continue;
        std::memcpy(calls[r].receive, sum.data(), bytes);
      }
      break;
    }
    case Call::What::broadcast: {
      const char* const from = sent[static_cast<std::size_t>(first.root)];
      const std::vector<char> copy(from, from + bytes);
      for (const Call& call : calls) std::memcpy(call.receive, copy.data(), bytes);
      break;
    }
    case Call::What::all_gather: {
      std::vector<char> all;
      for (const char* const piece : sent) all.insert(all.end(), piece, piece + bytes);
      for (const Call& call : calls) std::memcpy(call.receive, all.data(), all.size());
      break;
    }
    case Call::What::reduce_scatter: {
      std::vector<std::vector<char>> sums;
      for (std::size_t r = 0; r < ranks; ++r) {
        sums.push_back(nccl_reduce(sent, r * bytes, first.count, first.type, first.op));
      }
      for (std::size_t r = 0; r < ranks; ++r) {
        std::memcpy(calls[r].receive, sums[r].data(), bytes);
      }
    }
  }
}

}  // namespace
}  // namespace hetsgd_emulation

using namespace hetsgd_emulation;

namespace hetsgd_emulation {
namespace {

ncclResult_t checked(ncclComm_t comm, cudaStream_t stream, std::shared_ptr<Queue>& queue) {
  if (comm == nullptr) return ncclInvalidArgument;
  if (checked_stream(stream, queue) != cudaSuccess) return ncclUnhandledCudaError;
  if (queue->gpu != comm->clique->gpus[static_cast<std::size_t>(comm->rank)]) {
    return ncclInvalidArgument;
  }
  return queue->capture ? ncclInvalidUsage : ncclSuccess;  // captures are not emulated here
}

bool on_gpu_of(ncclComm_t comm, const void* memory) {
  const Arenas arena = arena_of(memory);
  return arena != 0 && gpu_of(arena) == comm->clique->gpus[static_cast<std::size_t>(comm->rank)];
}

ncclResult_t collective(const Call& call, ncclComm_t comm, cudaStream_t stream, bool grouped) {
  std::shared_ptr<Queue> queue;
  if (const ncclResult_t result = checked(comm, stream, queue); result != ncclSuccess) {
    return result;
  }
  const bool receives = call.what != Call::What::reduce || call.root == comm->rank;
  const bool sends = call.what != Call::What::broadcast || call.root == comm->rank;
  if (call.count > 0 &&
      ((receives && !on_gpu_of(comm, call.receive)) || (sends && !on_gpu_of(comm, call.send)))) {
    return ncclInvalidArgument;
  }
  Lock lock(mutex);
  const std::shared_ptr<Clique> clique = comm->clique;
  if (clique->aborted) return ncclInvalidUsage;
  const std::uint64_t number = comm->collectives++;
  std::shared_ptr<Round>& slot = clique->rounds[number];
  if (slot == nullptr) {
    slot = std::make_shared<Round>();
    slot->calls.resize(clique->gpus.size());
    slot->meeting->expected = clique->gpus.size();
    slot->calls[0] = call;  // what the others are compared with
    if (!grouped) slot->thread = std::this_thread::get_id();
  } else if (!call.matches(slot->calls[0])) {
    misuse("NCCL: the ranks of a communicator call different collectives");
  } else if (!grouped && slot->thread == std::this_thread::get_id()) {
    misuse("NCCL: one thread calls for several ranks without ncclGroupStart: this would hang");
  }
  const std::shared_ptr<Round> round = slot;
  if (comm->rank == 0) {
    round->calls[0] = call;
  } else {
    round->calls[static_cast<std::size_t>(comm->rank)] = call;
  }
  if (++round->arrived == round->calls.size()) clique->rounds.erase(number);
  push(lock, *queue,
       {.kind = Kind::library,
        .name = "NCCL",
        .touches = clique->arenas(),
        .run = [clique, round] { perform(round->calls); },
        .after = {},
        .meeting = round->meeting});
  return ncclSuccess;
}

// The pair's next message in this direction. Under the lock.
Mail& mail_of(Clique& clique, int from, int to, std::uint64_t number) {
  return clique.mail[{from, to, number}];
}

ncclResult_t send_or_receive(bool sends, void* memory, std::size_t bytes, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  std::shared_ptr<Queue> queue;
  if (const ncclResult_t result = checked(comm, stream, queue); result != ncclSuccess) {
    return result;
  }
  Lock lock(mutex);
  Clique& clique = *comm->clique;
  if (clique.aborted) return ncclInvalidUsage;
  if (peer < 0 || peer >= static_cast<int>(clique.gpus.size()) ||
      (bytes > 0 && !on_gpu_of(comm, memory))) {
    return ncclInvalidArgument;
  }
  const int from = sends ? comm->rank : peer, to = sends ? peer : comm->rank;
  const std::uint64_t number = sends ? comm->sent[peer]++ : comm->received[peer]++;
  Mail& slot = mail_of(clique, from, to, number);
  const Mail mail = slot;
  if (++slot.ends == 2) clique.mail.erase({from, to, number});
  Operation operation{
      .kind = Kind::library, .name = "NCCL", .touches = arena_of(memory), .run = {}, .after = {}};
  if (sends) {
    mail.sent->point = {queue, queue->given + 1};
    operation.run = [=] {
      const auto* const p = static_cast<const char*>(memory);
      mail.bytes->assign(p, p + bytes);
    };
  } else {
    operation.awaits = mail.sent;
    operation.run = [=] {
      if (mail.sent->aborted) return;
      if (mail.bytes->size() != bytes) misuse("NCCL: ranks send and receive different sizes");
      std::memcpy(memory, mail.bytes->data(), bytes);
    };
  }
  push(lock, *queue, std::move(operation));
  return ncclSuccess;
}

}  // namespace
}  // namespace hetsgd_emulation

namespace {

ncclResult_t collective_now_or_later(const Call& call, ncclComm_t comm, cudaStream_t stream) {
  const bool grouped = group_depth > 0;
  if (nccl_size(call.type) == 0) return ncclInvalidArgument;
  return now_or_later([=] { return collective(call, comm, stream, grouped); });
}

}  // namespace

extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective_now_or_later({Call::What::all_reduce, send, receive, count, type, op}, comm,
                                 stream);
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective_now_or_later({Call::What::reduce, send, receive, count, type, op, root}, comm,
                                 stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return collective_now_or_later({Call::What::broadcast, send, receive, count, type, ncclSum, root},
                                 comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return collective_now_or_later({Call::What::all_gather, send, receive, send_count, type}, comm,
                                 stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return collective_now_or_later(
      {Call::What::reduce_scatter, send, receive, receive_count, type, op}, comm, stream);
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * nccl_size(type);
  return now_or_later(
      [=] { return send_or_receive(true, const_cast<void*>(send), bytes, peer, comm, stream); });
}
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * nccl_size(type);
  return now_or_later([=] { return send_or_receive(false, receive, bytes, peer, comm, stream); });
}

}  // extern "C"
