// Copies between GPUs: straight where one can reach the other's memory, else through pinned host
// memory.
//
//    straight   source ---------------------------------------------> target     one stream
//    staged     source --out--> chunk 0 --in--> target                          a stream on either
//               source --out--> chunk 1 --in--> target                          GPU, and two events
//                                                                               per chunk
//
// All copies are asynchronous: they are given to streams, and the host waits in synchronize()
// alone. Objects here are used by one thread at a time. Throws Error(device) if a call of CUDA
// fails.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "linalg/cuda/resources.hpp"

namespace hetsgd::cuda {

// Makes a T that belongs to GPU `gpu`, which is the current one afterwards. Streams and events
// belong to the GPU that is current when they are made.
template <class T>
std::unique_ptr<T> make_on(int gpu) {
  HETSGD_CUDA(cudaSetDevice(gpu));
  return std::make_unique<T>();
}

// True if what runs on `gpu` reaches the memory of `other`; from then on it may, for memory of
// `other`'s default pool, where the vectors of devices lie. The answer is kept. Any thread.
bool reaches(int gpu, int other);

// Copies from one GPU to another through two chunks of host memory in turns: one is filled while
// the other is emptied. The memory is taken at the first copy. A Staging must not be
// destroyed while a copy is in flight.
class Staging {
 public:
  Staging(int from, int to);

  // Copies in the order of `out`, a stream of the source's GPU, and of `in`, one of the target's:
  // work that `in` is given later finds all bytes there. Source and target are any memory of these
  // GPUs.
  void copy(void* target, const void* source, std::size_t bytes, const Stream& out,
            const Stream& in);

 private:
  // Large enough for the link's bandwidth, small enough to overlap the two halves of the way.
  static constexpr std::size_t kChunk = std::size_t{1} << 20;
  // filled: its bytes have come from the source; emptied: they have gone on. A chunk is filled
  // again only after emptied has passed, which an event that was never recorded counts as.
  struct Chunk {
    Pinned memory;
    std::unique_ptr<Event> filled, emptied;
  };
  std::array<Chunk, 2> chunks_;
  // Number of the next chunk; the turn goes on from one copy to the next.
  std::size_t next_ = 0;
};

// One direction between the GPU of a thread and another GPU, on streams of its own. So transfers in
// both directions and to several GPUs run at the same time.
class CopyStream {
 public:
  // pull: from the other GPU to the thread's; push: the other way.
  enum class Direction { pull, push };

  // direct: whether the copies go straight (reaches). The thread's GPU is the current one
  // afterwards.
  CopyStream(int mine, int other, Direction direction, bool direct);

  // Copies that are given from now on wait for the event.
  void after(const Event& event) const { event.hold(*mine_); }
  // Copies `bytes` bytes in this object's direction, after all earlier copies.
  void copy(void* target, const void* source, std::size_t bytes);
  // Work that `stream` (of the thread's GPU) is given from now on waits for all copies so far. For
  // a pull only: the last step of its copies is in a stream of the thread's GPU.
  void before(const Stream& stream) {
    copied_->record(*mine_);
    copied_->hold(stream);
  }
  // The host waits until everything copied so far has arrived.
  void synchronize() const {
    mine_->synchronize();
    if (theirs_) theirs_->synchronize();
  }

 private:
  // GPUs of the source and of the target.
  int from_, to_;
  Direction direction_;
  std::unique_ptr<Stream> mine_, theirs_;
  // Null: straight, and no `theirs_`.
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Event> copied_;
};

}  // namespace hetsgd::cuda
