// Memory that the ranks of a communicator share: every process with one of the ranks has mapped it.
//
// The memory has no name (memfd). A unique id says which process has it open, as which file, and
// others open it there: nothing is left behind, however processes end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "nccl.h"

namespace hetsgd_emulation {

// The parameters of a collective on which its ranks must agree.
struct Form {
  enum class What { all_reduce, reduce, broadcast, all_gather, reduce_scatter };
  What what = What::all_reduce;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  int root = 0;

  bool operator==(const Form&) const = default;
};

class Board {
 public:
  static constexpr int kMostRanks = 64;
  static constexpr std::uint64_t kSlots = 2;  // of a rank: for its collectives k and k + 1

  struct Seat {                        // of a rank
    std::atomic<int> gpu;              // + 1; 0: has not come
    std::atomic<std::uint64_t> sent;   // collectives to which it has given its data
    std::atomic<std::uint64_t> taken;  // ... and of which it has its result
    Form forms[kSlots];
  };

  // From one rank to another: the k-th waits in a slot until it is taken.
  struct Letters {
    std::atomic<std::uint64_t> sent, taken;
    std::size_t bytes;
  };

  static std::unique_ptr<Board> make(int ranks);
  // Opens the board of offer_board(), in any process. Null: it does not exist.
  static std::unique_ptr<Board> open(const ncclUniqueId& id, int ranks);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  // False: it is taken; or others have come as ranks of a communicator of another size.
  bool sit_down(int rank, int gpu);
  Seat& seat(int rank) const;
  Form& form(int rank, std::uint64_t number) const { return seat(rank).forms[number % kSlots]; }
  char* slot(int rank, std::uint64_t number) const;
  Letters& letters(int from, int to) const;
  char* letter(int from, int to) const;
  int ranks() const { return ranks_; }

 private:
  struct Header;
  Board(int file, int ranks);

  Header* header_ = nullptr;
  int ranks_ = 0;
  std::size_t bytes_ = 0;
};

// Others can open it until this process withdraws it or ends.
ncclUniqueId offer_board();
void withdraw_board(const ncclUniqueId& id);  // of another process: does nothing

}  // namespace hetsgd_emulation
