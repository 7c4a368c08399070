// An emulated libnccl. A collective is an operation of each rank's stream; they run as one, in rank
// order, once all streams have come to theirs. Sends are buffered: what would hang for want of a
// group of sends and receives does not hang here.
#include "nccl.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "emulation.hpp"
#include "nccl_reduce.hpp"

namespace hetsgd_emulation {

namespace {

struct Call {
  enum class What { all_reduce, reduce, broadcast, all_gather, reduce_scatter };
  What what = What::all_reduce;
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat;
  ncclRedOp_t op = ncclSum;
  int root = 0;

  bool matches(const Call& other) const {
    return what == other.what && count == other.count && type == other.type && op == other.op &&
           root == other.root;
  }
};

struct Round {  // the k-th collective of a communicator
  std::vector<Call> calls;
  std::size_t arrived = 0;
  std::thread::id thread;  // of a call outside of groups
  std::shared_ptr<Meeting> meeting = std::make_shared<Meeting>();
};

struct Mail {
  std::shared_ptr<Later> sent = std::make_shared<Later>();
  std::shared_ptr<std::vector<char>> bytes = std::make_shared<std::vector<char>>();
  int ends = 0;  // sender and receiver who have it
};

struct Clique {
  explicit Clique(int ranks) : gpus(static_cast<std::size_t>(ranks), -1) {}
  Arenas arenas() const {
    Arenas all = 0;
    for (const int gpu : gpus) all |= arenas_of(gpu);
    return all;
  }
  bool complete() const { return std::find(gpus.begin(), gpus.end(), -1) == gpus.end(); }

  std::vector<int> gpus;  // by rank
  bool aborted = false, refused = false;
  std::map<std::uint64_t, std::shared_ptr<Round>> rounds;
  std::map<std::tuple<int, int, std::uint64_t>, Mail> mail;  // from, to, number
};

std::map<std::string, std::weak_ptr<Clique>>& cliques() {
  static auto* const all = new std::map<std::string, std::weak_ptr<Clique>>;
  return *all;
}

thread_local int group_depth = 0;
thread_local std::vector<std::function<ncclResult_t()>> group;

void perform(const Clique& clique, const std::vector<Call>& calls) {
  const Call& first = calls.front();
  const std::size_t ranks = calls.size(), size = nccl_size(first.type), bytes = first.count * size;
  std::vector<const char*> sent;
  for (const Call& call : calls) sent.push_back(static_cast<const char*>(call.send));
  static_cast<void>(clique);
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

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  std::uint64_t collectives = 0;
  std::map<int, std::uint64_t> sent = {}, received = {};  // by peer
};

namespace hetsgd_emulation {
namespace {

// Now, or at the end of the group.
ncclResult_t now_or_later(std::function<ncclResult_t()> call) {
  if (group_depth == 0) return call();
  group.push_back(std::move(call));
  return ncclSuccess;
}

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
        .run = [clique, round] { perform(*clique, round->calls); },
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

// A rank enters its clique. NCCL takes no GPU twice.
ncclResult_t enter(ncclComm_t* comm, const std::shared_ptr<Clique>& clique, int rank, int gpu) {
  const auto at = static_cast<std::size_t>(rank);
  if (rank < 0 || at >= clique->gpus.size() || clique->gpus[at] != -1) return ncclInvalidArgument;
  if (std::find(clique->gpus.begin(), clique->gpus.end(), gpu) != clique->gpus.end()) {
    clique->refused = true;
  }
  clique->gpus[at] = gpu;
  *comm = new ncclComm{clique, rank};
  changed.notify_all();
  return clique->refused ? ncclInvalidUsage : ncclSuccess;
}

}  // namespace
}  // namespace hetsgd_emulation

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22700;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::uint64_t next = 0;
  const Lock lock(mutex);
  std::memset(id->internal, 0, sizeof id->internal);
  const std::string text = fmt::format("emulated {}", ++next);
  std::memcpy(id->internal, text.data(), text.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  *comm = nullptr;
  if (ranks < 1) return ncclInvalidArgument;
  std::shared_ptr<Clique> clique;
  {
    const Lock lock(mutex);
    std::weak_ptr<Clique>& slot = cliques()[id.internal];
    clique = slot.lock();
    if (clique == nullptr) slot = clique = std::make_shared<Clique>(ranks);
    if (clique->gpus.size() != static_cast<std::size_t>(ranks)) return ncclInvalidArgument;
    const ncclResult_t result = enter(comm, clique, rank, current_gpu());
    if (result == ncclInvalidArgument) return result;
  }
  return now_or_later([clique] {
    Lock lock(mutex);
    const auto patience = std::chrono::duration<double>(settings().hang_s);
    if (!changed.wait_for(lock, patience, [&] { return clique->complete(); })) {
      misuse("NCCL: a rank waits for others that do not come into the communicator");
    }
    return clique->refused ? ncclInvalidUsage : ncclSuccess;
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  if (count < 1) return ncclInvalidArgument;
  const auto clique = std::make_shared<Clique>(count);
  const Lock lock(mutex);
  ncclResult_t result = ncclSuccess;
  for (int rank = 0; rank < count; ++rank) {
    const int gpu = devices != nullptr ? devices[rank] : rank;
    if (gpu < 0 || gpu >= settings().gpus) return ncclInvalidArgument;
    const ncclResult_t one = enter(&comms[rank], clique, rank, gpu);
    if (one != ncclSuccess) result = one;
  }
  if (result != ncclSuccess) {
    for (int rank = 0; rank < count; ++rank) delete std::exchange(comms[rank], nullptr);
  }
  return result;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
// Whoever waits for this communicator's operations waits no longer.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclInvalidArgument;
  {
    const Lock lock(mutex);
    Clique& clique = *comm->clique;
    clique.aborted = true;
    for (auto& [number, round] : clique.rounds) round->meeting->aborted = true;
    for (auto& [pair, mail] : clique.mail) mail.sent->aborted = true;
    changed.notify_all();
  }
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  *count = static_cast<int>(comm->clique->gpus.size());
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  *device = comm->clique->gpus[static_cast<std::size_t>(comm->rank)];
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const Lock lock(mutex);
  *error = comm->clique->aborted ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    default:
      return "unknown result code";
  }
}
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (const auto& call : std::exchange(group, {})) {
    const ncclResult_t one = call();
    if (result == ncclSuccess) result = one;
  }
  return result;
}

}  // extern "C"

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
