// Copies between GPUs: straight where one can reach the other's memory, else through pinned memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "linalg/cuda/resources.hpp"

namespace hetsgd::cuda {

// A T that belongs to GPU `gpu`, which is the current one afterwards.
template <class T>
std::unique_ptr<T> make_on(int gpu) {
  HETSGD_CUDA(cudaSetDevice(gpu));
  return std::make_unique<T>();
}

// True if what runs on `gpu` reaches the memory of `other`; from then on it may. Any thread.
bool reaches(int gpu, int other);

// Copies from one GPU to another through two chunks of host memory in turns.
class Staging {
 public:
  Staging(int from, int to);

  // In the order of `out`, a stream of the source's GPU, and of `in`, one of the target's.
  void copy(void* target, const void* source, std::size_t bytes, const Stream& out,
            const Stream& in);

 private:
  static constexpr std::size_t kChunk = std::size_t{1} << 20;
  struct Chunk {
    Pinned memory;
    std::unique_ptr<Event> filled, emptied;
  };
  std::array<Chunk, 2> chunks_;
  std::size_t next_ = 0;
};

// One direction between the GPU of a thread and another GPU, on streams of its own.
class Lane {
 public:
  enum class Direction { pull, push };  // from the other GPU, to it

  // The thread's GPU is the current one afterwards.
  Lane(int mine, int other, Direction direction, bool direct);

  // What is copied from now on waits for the event.
  void after(const Event& event) const { event.hold(*mine_); }
  void copy(void* target, const void* source, std::size_t bytes);
  // What `stream`, of the thread's GPU, is given from now on waits for what was copied so far.
  void before(const Stream& stream) {
    copied_->record(*mine_);
    copied_->hold(stream);
  }
  void synchronize() const {
    mine_->synchronize();
    if (theirs_) theirs_->synchronize();
  }

 private:
  int from_, to_;
  Direction direction_;
  std::unique_ptr<Stream> mine_, theirs_;
  std::unique_ptr<Staging> staging_;  // null: straight, and no `theirs_`
  std::unique_ptr<Event> copied_;
};

}  // namespace hetsgd::cuda
