#include "cluster/cuda/copies.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

namespace hetsgd::cuda {

// Vectors come from the GPUs' pools, to which others have access if they are given it.
bool reaches(int gpu, int other) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, bool> known;
  const std::lock_guard guard(mutex);
  const auto [entry, fresh] = known.try_emplace({gpu, other}, gpu == other);
  if (!fresh || gpu == other) return entry->second;
  int can = 0;
  HETSGD_CUDA(cudaDeviceCanAccessPeer(&can, gpu, other));
  if (can == 0) return false;
  cudaMemPool_t pool = nullptr;
  HETSGD_CUDA(cudaDeviceGetDefaultMemPool(&pool, other));
  cudaMemAccessDesc access = {};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = gpu;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  HETSGD_CUDA(cudaMemPoolSetAccess(pool, &access, 1));
  return entry->second = true;
}

Staging::Staging(int from, int to) {
  for (Chunk& chunk : chunks_) {
    chunk.filled = make_on<Event>(from);
    chunk.emptied = make_on<Event>(to);
  }
}

void Staging::copy(void* target, const void* source, std::size_t bytes, const Stream& out,
                   const Stream& in) {
  for (std::size_t at = 0; at < bytes; at += kChunk, ++next_) {
    const std::size_t size = std::min(bytes - at, kChunk);
    Chunk& chunk = chunks_[next_ % 2];
    std::byte* const pinned = chunk.memory.reserve(kChunk, "copies between GPUs");
    chunk.emptied->hold(out);
    HETSGD_CUDA(cudaMemcpyAsync(pinned, static_cast<const std::byte*>(source) + at, size,
                                cudaMemcpyDeviceToHost, out.get()));
    chunk.filled->record(out);
    chunk.filled->hold(in);
    HETSGD_CUDA(cudaMemcpyAsync(static_cast<std::byte*>(target) + at, pinned, size,
                                cudaMemcpyHostToDevice, in.get()));
    chunk.emptied->record(in);
  }
}

CopyStream::CopyStream(int mine, int other, Direction direction, bool direct)
    : from_(direction == Direction::pull ? other : mine),
      to_(direction == Direction::pull ? mine : other),
      direction_(direction) {
  if (!direct) {
    theirs_ = make_on<Stream>(other);
    staging_ = std::make_unique<Staging>(from_, to_);
  }
  mine_ = make_on<Stream>(mine);
  copied_ = make_on<Event>(mine);
}

void CopyStream::copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  if (!staging_) {
    HETSGD_CUDA(cudaMemcpyPeerAsync(target, to_, source, from_, bytes, mine_->get()));
    return;
  }
  const bool pull = direction_ == Direction::pull;
  staging_->copy(target, source, bytes, pull ? *theirs_ : *mine_, pull ? *mine_ : *theirs_);
}

}  // namespace hetsgd::cuda
