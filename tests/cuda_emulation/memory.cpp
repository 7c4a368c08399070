// Arenas of emulated device memory: address space without access, opened while operations run.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>

#include "emulation.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(at, size) static_cast<void>(0)
#endif

namespace hetsgd_emulation {

namespace {

constexpr std::size_t kAlignment = 256;  // as CUDA's
constexpr int kFreed = 0xFF;             // as a float, double or index: nothing to work with
constexpr int kGuard = 0xA5;             // behind each allocation

struct Piece {
  std::size_t wanted = 0, size = 0;
  int held = 0;
};

struct Arena {
  char* begin = nullptr;
  char* always_mapped = nullptr;            // the same memory, for a CUDA-aware MPI
  int users = 0;                            // who have it open
  std::map<std::size_t, std::size_t> gaps;  // begin -> size
  std::map<std::size_t, Piece> pieces;
  std::size_t used = 0;
};

void* map(int file, int protection) {  // file -1: of this process alone
  const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const space =
      mmap(nullptr, settings().memory_bytes, protection, kind | MAP_NORESERVE, file, 0);
  if (space == MAP_FAILED) misuse("no address space for the emulated GPUs' memory");
  return space;
}

struct Memory {
  Memory() {
    for (std::size_t i = 0; i < 2 * static_cast<std::size_t>(settings().gpus); ++i) {
      const bool twice = settings().cuda_aware_mpi && i % 2 == 0;  // not those of the pools
      const int file = twice ? memfd_create("emulated GPU memory", MFD_CLOEXEC) : -1;
      if (twice && ftruncate(file, static_cast<off_t>(settings().memory_bytes)) != 0) {
        misuse("no memory for the emulated GPUs");
      }
      void* const space = map(file, PROT_NONE);
      if (twice) {
        arenas[i].always_mapped = static_cast<char*>(map(file, PROT_READ | PROT_WRITE));
        close(file);
      }
      madvise(space, settings().memory_bytes, MADV_HUGEPAGE);  // fewer pages to open and close
      arenas[i].begin = static_cast<char*>(space);
      arenas[i].gaps[0] = settings().memory_bytes;
    }
  }

  std::mutex mutex;
  std::array<Arena, 2 * kMostGpus> arenas;
  std::array<Arenas, kMostGpus> peers = {};  // what a GPU's kernels reach of the others
};

Memory& memory() {
  static Memory* const all = new Memory;  // outlives whatever is destroyed at the end
  return *all;
}

std::size_t index_of(Arenas arena) { return static_cast<std::size_t>(__builtin_ctzll(arena)); }

void protect(const Arena& arena, int protection) {
  mprotect(arena.begin, settings().memory_bytes, protection);
}

// The next smallest gap that is large enough would fragment less; the first one finds mistakes
// sooner, since addresses are used again at once.
void* carve(Arena& arena, std::size_t bytes) {
  const std::size_t size = (bytes + 2 * kAlignment - 1) / kAlignment * kAlignment;
  for (auto gap = arena.gaps.begin(); gap != arena.gaps.end(); ++gap) {
    if (gap->second < size) continue;
    const std::size_t at = gap->first, rest = gap->second - size;
    arena.gaps.erase(gap);
    if (rest > 0) arena.gaps[at + size] = rest;
    arena.pieces[at] = {.wanted = bytes, .size = size};
    arena.used += size;
    ASAN_UNPOISON_MEMORY_REGION(arena.begin + at, size);
    std::memset(arena.begin + at, kFreed, bytes);
    std::memset(arena.begin + at + bytes, kGuard, size - bytes);
    ASAN_POISON_MEMORY_REGION(arena.begin + at + bytes, size - bytes);
    return arena.begin + at;
  }
  return nullptr;
}

void change_holders(const void* address, int change) {
  const Arenas which = arena_of(address);
  if (which == 0) return;
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  Arena& arena = all.arenas[index_of(which)];
  const auto at = static_cast<std::size_t>(static_cast<const char*>(address) - arena.begin);
  const auto after = arena.pieces.upper_bound(at);
  if (after != arena.pieces.begin()) std::prev(after)->second.held += change;
}

void fill_in(Arena& arena, std::size_t at, const Piece& piece) {
  ASAN_UNPOISON_MEMORY_REGION(arena.begin + at, piece.size);
  for (std::size_t i = piece.wanted; i < piece.size; ++i) {
    if (static_cast<unsigned char>(arena.begin[at + i]) != kGuard) {
      misuse(fmt::format("something wrote {} bytes past an allocation of {} bytes",
                         i - piece.wanted + 1, piece.wanted));
    }
  }
  std::memset(arena.begin + at, kFreed, piece.size);
  ASAN_POISON_MEMORY_REGION(arena.begin + at, piece.size);
  arena.used -= piece.size;
  const auto gap = arena.gaps.emplace(at, piece.size).first;
  if (const auto next = std::next(gap);
      next != arena.gaps.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    arena.gaps.erase(next);
  }
  if (gap != arena.gaps.begin()) {
    const auto before = std::prev(gap);
    if (before->first + before->second == gap->first) {
      before->second += gap->second;
      arena.gaps.erase(gap);
    }
  }
}

}  // namespace

Arenas arena_of(const void* address) {
  const auto* const p = static_cast<const char*>(address);
  Memory& all = memory();
  for (std::size_t i = 0; i < 2 * static_cast<std::size_t>(settings().gpus); ++i) {
    const char* const begin = all.arenas[i].begin;
    if (p >= begin && p < begin + settings().memory_bytes) return Arenas{1} << i;
  }
  return 0;
}

void* always_mapped(const void* address) {
  const Arena& arena = memory().arenas[index_of(arena_of(address))];
  return arena.always_mapped + (static_cast<const char*>(address) - arena.begin);
}

int gpu_of(Arenas arena) { return static_cast<int>(index_of(arena) / 2); }

void* take_memory(int gpu, bool pool, std::size_t bytes) {
  const Arenas which = pool ? pool_arena(gpu) : malloc_arena(gpu);
  Memory& all = memory();
  if (bytes > settings().memory_bytes || bytes + 2 * kAlignment > free_bytes(gpu)) return nullptr;
  Access access;
  access.change(which);
  const std::lock_guard lock(all.mutex);
  return carve(all.arenas[index_of(which)], bytes);
}

void give_memory(void* address) {
  const Arenas which = arena_of(address);
  if (which == 0) misuse("a pointer is given back that is no device memory");
  Memory& all = memory();
  Access access;
  access.change(which);
  const std::lock_guard lock(all.mutex);
  Arena& arena = all.arenas[index_of(which)];
  const auto at = static_cast<std::size_t>(static_cast<char*>(address) - arena.begin);
  const auto piece = arena.pieces.extract(at);
  if (piece.empty())
    misuse("device memory is given back that is not an allocation, or not any more");
  if (piece.mapped().held > 0) misuse("device memory is given back that NCCL is going to use");
  fill_in(arena, at, piece.mapped());
}

void hold_memory(const void* address) { change_holders(address, 1); }
void let_memory_go(const void* address) { change_holders(address, -1); }

std::size_t free_bytes(int gpu) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  const std::size_t used =
      all.arenas[index_of(malloc_arena(gpu))].used + all.arenas[index_of(pool_arena(gpu))].used;
  return settings().memory_bytes > used ? settings().memory_bytes - used : 0;
}

std::size_t pool_bytes(int gpu) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  return all.arenas[index_of(pool_arena(gpu))].used;
}

void Access::change(Arenas wanted) {
  if (wanted == open_) return;
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  for (std::size_t i = 0; i < all.arenas.size(); ++i) {
    const bool was = (open_ >> i & 1U) != 0, is = (wanted >> i & 1U) != 0;
    Arena& arena = all.arenas[i];
    if (is && !was && arena.users++ == 0) protect(arena, PROT_READ | PROT_WRITE);
    if (was && !is && --arena.users == 0) protect(arena, PROT_NONE);
  }
  open_ = wanted;
}

Arenas reachable(int gpu) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  return arenas_of(gpu) | all.peers[static_cast<std::size_t>(gpu)];
}

void set_peer_pool(int from, int owner, bool enabled) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  Arenas& peers = all.peers[static_cast<std::size_t>(from)];
  peers = enabled ? peers | pool_arena(owner) : peers & ~pool_arena(owner);
}

}  // namespace hetsgd_emulation
