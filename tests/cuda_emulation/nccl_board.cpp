#include "nccl_board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <random>

#include "emulation.hpp"

namespace hetsgd_emulation {

namespace {

constexpr std::size_t kHeaderBytes = std::size_t{256} << 10;

struct Front {
  std::uint64_t mark = 0;      // as in the id: the process of an old id may have a successor
  std::size_t slot_bytes = 0;  // what a GPU has
};

std::size_t board_bytes(int ranks) {  // address space: only what is written to takes memory
  const auto p = static_cast<std::size_t>(ranks);
  const auto slots = p * (Board::kSlots + p);
  return kHeaderBytes + slots * settings().memory_bytes;
}

int make_file(std::uint64_t mark) {
  const int file = memfd_create("emulated NCCL", MFD_CLOEXEC);
  const Front front{mark, settings().memory_bytes};
  if (file < 0 || ftruncate(file, static_cast<off_t>(board_bytes(Board::kMostRanks))) != 0 ||
      pwrite(file, &front, sizeof front, 0) != sizeof front) {
    misuse("NCCL: no memory for what the ranks share");
  }
  return file;
}

std::mutex offers_mutex;
std::map<std::uint64_t, int>& offers() {  // mark -> file
  static auto* const all = new std::map<std::uint64_t, int>;
  return *all;
}

constexpr const char* kId = "emulated %d %d %llx";  // process, file, mark
struct Place {
  int process = 0, file = 0;
  unsigned long long mark = 0;
};

bool parse(const ncclUniqueId& id, Place& place) {
  return std::memchr(id.internal, 0, sizeof id.internal) != nullptr &&
         std::sscanf(id.internal, kId, &place.process, &place.file, &place.mark) == 3;
}

}  // namespace

struct Board::Header {
  Front front;
  std::atomic<int> ranks;
  Seat seats[kMostRanks];
  Letters letters[kMostRanks][kMostRanks];  // from, to
};

Board::Board(int file, int ranks) : ranks_(ranks), bytes_(board_bytes(ranks)) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  void* const space =
      mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (space == MAP_FAILED) misuse("NCCL: no address space for what the ranks share");
  header_ = static_cast<Header*>(space);
}

Board::~Board() { munmap(header_, bytes_); }

std::unique_ptr<Board> Board::make(int ranks) {
  const int file = make_file(0);
  auto board = std::unique_ptr<Board>(new Board(file, ranks));
  close(file);
  return board;
}

std::unique_ptr<Board> Board::open(const ncclUniqueId& id, int ranks) {
  Place place;
  if (!parse(id, place)) return nullptr;
  const std::string path = fmt::format("/proc/{}/fd/{}", place.process, place.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  Front front;
  std::unique_ptr<Board> board;
  if (pread(file, &front, sizeof front, 0) == sizeof front && front.mark == place.mark) {
    if (front.slot_bytes != settings().memory_bytes) {
      misuse("NCCL: processes with different CUDA_EMULATION_MEMORY in one communicator");
    }
    board.reset(new Board(file, ranks));
  }
  close(file);
  return board;
}

bool Board::sit_down(int rank, int gpu) {
  int size = 0, nobody = 0;
  if (!header_->ranks.compare_exchange_strong(size, ranks_) && size != ranks_) return false;
  return seat(rank).gpu.compare_exchange_strong(nobody, gpu + 1);
}

Board::Seat& Board::seat(int rank) const { return header_->seats[rank]; }

char* Board::slot(int rank, std::uint64_t number) const {
  const std::uint64_t index = static_cast<std::uint64_t>(rank) * kSlots + number % kSlots;
  return reinterpret_cast<char*>(header_) + kHeaderBytes + index * settings().memory_bytes;
}

Board::Letters& Board::letters(int from, int to) const { return header_->letters[from][to]; }

char* Board::letter(int from, int to) const {
  const std::size_t p = static_cast<std::size_t>(ranks_);
  const std::size_t index =
      p * kSlots + static_cast<std::size_t>(from) * p + static_cast<std::size_t>(to);
  return reinterpret_cast<char*>(header_) + kHeaderBytes + index * settings().memory_bytes;
}

ncclUniqueId offer_board() {
  std::random_device random;
  const std::uint64_t mark = std::uint64_t{random()} << 32 | random();
  const int file = make_file(mark);
  const std::lock_guard guard(offers_mutex);
  offers()[mark] = file;
  ncclUniqueId id = {};
  std::snprintf(id.internal, sizeof id.internal, kId, getpid(), file,
                static_cast<unsigned long long>(mark));
  return id;
}

void withdraw_board(const ncclUniqueId& id) {
  Place place;
  if (!parse(id, place) || place.process != getpid()) return;
  const std::lock_guard guard(offers_mutex);
  const auto offer = offers().extract(place.mark);
  if (!offer.empty()) close(offer.mapped());
}

}  // namespace hetsgd_emulation
