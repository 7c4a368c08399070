// Streams: parts of one device that compute at the same time, each a device of its own. On them run
// the learners of a device (paper 002, sections 3.3 and 4.3).
//
//            for n tasks
//   cpu:N    min(n, N) streams of N / min(n, N) cores each, rounded down; what is left rests
//   GPU      n streams, each with handles, scratch and a way for batches of its own
//
// Task j runs on stream j mod count(); the tasks of one stream run one after the other, in order.
//
//   the device   ... |begin|                              |end| ...
//   stream 0               |= start 0 =|= start 2, 3 ... =|
//   stream 1               |===== start 1 =====|          |
//
// What the device was given before run() is done before any task, and all tasks are done before
// what it is given afterwards. Tasks touch only memory that no other task touches, so how they
// interleave has no say in their results. The number of cores has one where a kernel adds up what
// its cores have summed (softmax_layer): tasks on streams of c cores have the bits that they have
// one after the other on cpu:c.
#pragma once

#include <cstddef>
#include <functional>

#include "linalg/device.hpp"

namespace hetsgd {

// Made by BasicDevice::streams(), which it must not outlive; used where the device could be used.
template <class Real>
class BasicStreams {
 public:
  using Task = std::function<void(std::size_t)>;

  virtual ~BasicStreams() = default;
  virtual std::size_t count() const = 0;
  // A stream's device: memory of the whole device is also memory of its streams. Whoever uses it
  // outside of run() waits for it (synchronize()).
  virtual BasicDevice<Real>& device(std::size_t stream) = 0;
  // start(j), then finish(j), of every task j < tasks. On a CPU both run on the stream's cores, and
  // run() returns when all are through. On a GPU the calling thread makes all calls of start(),
  // which launch without waiting, before those of finish(), which may wait for results. An
  // exception of a task comes out, on a CPU the first stream's when all are through; the order
  // above holds all the same.
  virtual void run(std::size_t tasks, const Task& start, const Task& finish) = 0;
};

using Streams = BasicStreams<float>;

}  // namespace hetsgd
