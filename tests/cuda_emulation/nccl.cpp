// An emulated libnccl. A collective is two operations of each rank's stream. One gives the rank's
// data to all (nccl_board.hpp). The other runs when every rank has given its own, makes the result
// in rank order and keeps this rank's part. So the bits are the same whether the ranks are threads
// or processes. Sends are buffered: a missing group of sends and receives, which would hang NCCL,
// does not hang here.
#include <algorithm>
#include <cstring>
#include <utility>

#include "nccl_clique.hpp"
#include "nccl_reduce.hpp"

namespace hetsgd_emulation {

namespace {

using What = Form::What;

struct Call {
  Form form;
  const void* send = nullptr;
  void* receive = nullptr;

  std::size_t bytes() const { return form.count * nccl_size(form.type); }
  bool sends(int rank) const { return form.what != What::broadcast || rank == form.root; }
  bool receives(int rank) const { return form.what != What::reduce || rank == form.root; }
};

void give(const Clique& clique, int rank, std::uint64_t number, const Call& call) {
  if (clique.aborted) return;
  clique.board->form(rank, number) = call.form;
  const auto blocks = call.form.what == What::reduce_scatter ? clique.ranks() : 1;
  const std::size_t bytes = static_cast<std::size_t>(blocks) * call.bytes();
  if (call.sends(rank) && bytes > 0)
    std::memcpy(clique.board->slot(rank, number), call.send, bytes);
  clique.board->seat(rank).sent = number + 1;
}

void let_go(Clique& clique, int rank, std::uint64_t number) {
  const Lock lock(mutex);
  clique.holds.erase({number, rank});
}

// Every rank has given.
void take(const Clique& clique, int rank, std::uint64_t number, const Call& call) {
  if (clique.aborted) return;
  const Board& board = *clique.board;
  std::vector<const char*> sent;
  for (int r = 0; r < clique.ranks(); ++r) {
    if (board.form(r, number) != call.form) {
      misuse("NCCL: the ranks of a communicator call different collectives");
    }
    sent.push_back(board.slot(r, number));
  }
  auto* const to = static_cast<char*>(call.receive);
  const std::size_t bytes = call.bytes();
  if (call.receives(rank) && bytes > 0) {
    switch (call.form.what) {
      case What::all_reduce:
      case What::reduce:
        nccl_reduce(to, sent, 0, call.form);
        break;
      case What::broadcast:
        std::memcpy(to, sent[static_cast<std::size_t>(call.form.root)], bytes);
        break;
      case What::all_gather:
        for (std::size_t r = 0; r < sent.size(); ++r) std::memcpy(to + r * bytes, sent[r], bytes);
        break;
      case What::reduce_scatter:
        nccl_reduce(to, sent, static_cast<std::size_t>(rank) * bytes, call.form);
    }
  }
  board.seat(rank).taken = number + 1;
}

// Whether all ranks have given to the collective (`count`: &Seat::sent) or have its result (taken).
// Advances the queues of this process.
bool all_have(Lock& lock, Clique& clique, std::uint64_t number, std::map<int, Point> Round::*points,
              std::atomic<std::uint64_t> Board::Seat::*count) {
  if (clique.aborted) return true;
  if (const auto round = clique.rounds.find(number); round != clique.rounds.end()) {
    const std::map<int, Point> mine = round->second.*points;
    for (const auto& [rank, point] : mine) advance(lock, *point.queue, point.count);
  }
  for (int r = 0; r < clique.ranks(); ++r) {
    if (clique.board->seat(r).*count <= number) return false;
  }
  return true;
}

ncclResult_t checked(ncclComm_t comm, cudaStream_t stream, std::shared_ptr<Queue>& queue) {
  if (checked_stream(stream, queue) != cudaSuccess) return ncclUnhandledCudaError;
  if (queue->gpu != comm->clique->gpu(comm->rank)) return ncclInvalidArgument;
  return ncclSuccess;
}

bool on_gpu_of(ncclComm_t comm, const void* memory) {
  const Arenas arena = arena_of(memory);
  return arena != 0 && gpu_of(arena) == comm->clique->gpu(comm->rank);
}

// Removes rounds for which no rank waits any more.
Round& round_of(Clique& clique, std::uint64_t number) {
  std::erase_if(clique.rounds, [&](const auto& entry) {
    for (int r = 0; r < clique.ranks(); ++r) {
      if (clique.board->seat(r).taken <= entry.first) return false;
    }
    return true;
  });
  return clique.rounds[number];
}

ncclResult_t collective(const Call& call, ncclComm_t comm, cudaStream_t stream, bool grouped) {
  std::shared_ptr<Queue> queue;
  if (const ncclResult_t result = checked(comm, stream, queue); result != ncclSuccess) {
    return result;
  }
  const int rank = comm->rank;
  if (call.form.count > 0 && ((call.receives(rank) && !on_gpu_of(comm, call.receive)) ||
                              (call.sends(rank) && !on_gpu_of(comm, call.send)))) {
    return ncclInvalidArgument;
  }
  Lock lock(mutex);
  const std::shared_ptr<Clique> clique = comm->clique;
  if (clique->aborted) return ncclInvalidUsage;
  const std::uint64_t number = comm->collectives++;
  Round& round = round_of(*clique, number);
  if (!grouped && round.thread == std::this_thread::get_id()) {
    misuse("NCCL: one thread calls for several ranks without ncclGroupStart: this would hang");
  }
  if (!grouped) round.thread = std::this_thread::get_id();
  round.sent[rank] = {queue, queue->given + 1};
  round.taken[rank] = {queue, queue->given + 2};
  if (call.form.count > 0) {
    if (call.sends(rank)) clique->holds.emplace(std::pair(number, rank), call.send);
    if (call.receives(rank)) clique->holds.emplace(std::pair(number, rank), call.receive);
  }
  std::vector<Point> after;
  if (comm->last.queue) after.push_back(comm->last);
  comm->last = round.taken[rank];
  push(lock, *queue,
       {.touches = arena_of(call.send),
        .run = [=] { give(*clique, rank, number, call); },
        .after = after,
        .ready = [=](Lock& held) {  // its slot has been read
          return number < Board::kSlots || all_have(held, *clique, number - Board::kSlots,
                                                    &Round::taken, &Board::Seat::taken);
        }});
  push(lock, *queue,
       {.touches = arena_of(call.receive),
        .run =
            [=] {
              take(*clique, rank, number, call);
              let_go(*clique, rank, number);
            },
        .ready =
            [=](Lock& held) {
              return all_have(held, *clique, number, &Round::sent, &Board::Seat::sent);
            }});
  return ncclSuccess;
}

// Between processes: by the board.
Operation to_or_from_outside(bool sends, void* memory, std::size_t bytes,
                             const std::tuple<int, int, std::uint64_t>& which,
                             const std::shared_ptr<Clique>& clique) {
  const auto [from, to, number] = which;
  Board::Letters& letters = clique->board->letters(from, to);
  char* const letter = clique->board->letter(from, to);
  Operation operation{.touches = arena_of(memory)};
  if (sends) {
    operation.ready = [=, &letters, number = number](Lock&) {
      return clique->aborted || letters.taken == number;
    };
    operation.run = [=, &letters] {
      if (clique->aborted) return;
      std::memcpy(letter, memory, bytes);
      letters.bytes = bytes;
      ++letters.sent;
    };
  } else {
    operation.ready = [=, &letters, number = number](Lock&) {
      return clique->aborted || letters.sent > number;
    };
    operation.run = [=, &letters] {
      if (clique->aborted) return;
      if (letters.bytes != bytes) misuse("NCCL: ranks send and receive different sizes");
      std::memcpy(memory, letter, bytes);
      ++letters.taken;
    };
  }
  return operation;
}

ncclResult_t send_or_receive(bool sends, void* memory, std::size_t bytes, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
  std::shared_ptr<Queue> queue;
  if (const ncclResult_t result = checked(comm, stream, queue); result != ncclSuccess) {
    return result;
  }
  Lock lock(mutex);
  const std::shared_ptr<Clique> clique = comm->clique;
  if (clique->aborted) return ncclInvalidUsage;
  if (peer < 0 || peer >= clique->ranks() || (bytes > 0 && !on_gpu_of(comm, memory))) {
    return ncclInvalidArgument;
  }
  const int from = sends ? comm->rank : peer, to = sends ? peer : comm->rank;
  const std::uint64_t number = sends ? comm->sent[peer]++ : comm->received[peer]++;
  if (!clique->here.contains(peer)) {
    push(lock, *queue, to_or_from_outside(sends, memory, bytes, {from, to, number}, clique));
    return ncclSuccess;
  }
  std::shared_ptr<Mail>& slot = clique->mail[{from, to, number}];
  if (slot == nullptr) slot = std::make_shared<Mail>();
  const std::shared_ptr<Mail> mail = slot;
  if (++mail->ends == 2) clique->mail.erase({from, to, number});
  Operation operation{.touches = arena_of(memory)};
  if (sends) {
    mail->sent = {queue, queue->given + 1};
    operation.run = [=] {
      const auto* const p = static_cast<const char*>(memory);
      mail->bytes.assign(p, p + bytes);
    };
  } else {
    operation.ready = [=](Lock& held) {
      const Point sent = mail->sent;
      return clique->aborted || (sent.queue && advance(held, *sent.queue, sent.count));
    };
    operation.run = [=] {
      if (clique->aborted) return;
      if (mail->bytes.size() != bytes) misuse("NCCL: ranks send and receive different sizes");
      std::memcpy(memory, mail->bytes.data(), bytes);
    };
  }
  push(lock, *queue, std::move(operation));
  return ncclSuccess;
}

}  // namespace
}  // namespace hetsgd_emulation

using namespace hetsgd_emulation;
using What = Form::What;

namespace {

ncclResult_t collective_now_or_later(const Call& call, ncclComm_t comm, cudaStream_t stream) {
  const bool grouped = group_depth > 0 || (comm != nullptr && !comm->blocking);
  return now_or_later(comm, [=] { return collective(call, comm, stream, grouped); });
}

}  // namespace

extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective_now_or_later({{What::all_reduce, count, type, op}, send, receive}, comm,
                                 stream);
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return collective_now_or_later({{What::reduce, count, type, op, root}, send, receive}, comm,
                                 stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return collective_now_or_later({{What::broadcast, count, type, ncclSum, root}, send, receive},
                                 comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return collective_now_or_later({{What::all_gather, send_count, type}, send, receive}, comm,
                                 stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t receive_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return collective_now_or_later({{What::reduce_scatter, receive_count, type, op}, send, receive},
                                 comm, stream);
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * nccl_size(type);
  return now_or_later(comm, [=] {
    return send_or_receive(true, const_cast<void*>(send), bytes, peer, comm, stream);
  });
}
ncclResult_t ncclRecv(void* receive, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = count * nccl_size(type);
  return now_or_later(comm,
                      [=] { return send_or_receive(false, receive, bytes, peer, comm, stream); });
}

}  // extern "C"
