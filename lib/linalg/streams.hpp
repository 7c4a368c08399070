// Streams: parts of one device that compute at the same time, each a device of its own. The
// learners of a device run on them (CROSSBOW, sections 3.3 and 4.3).
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
// Work that the device got before run() is done before any task, and all tasks are done before
// later work of the device. Tasks touch only memory that no other task touches, so their
// interleaving does not affect their results. The number of cores does, if a kernel adds up sums of
// its cores (softmax_layer). Tasks on streams of c cores have the bits that they have one after the
// other on cpu:c.
#pragma once

#include <cstddef>
#include <functional>

#include "linalg/device.hpp"

namespace hetsgd {

// Made by BasicDevice::streams(). It must not outlive the device, and may be used where the device
// could be used.
template <class Real>
class BasicStreams {
 public:
  using Task = std::function<void(std::size_t)>;

  virtual ~BasicStreams() = default;
  virtual std::size_t count() const = 0;
  // A stream's device. Memory of the whole device is also memory of its streams. Code that uses a
  // stream's device outside of run() must wait for it (synchronize()).
  virtual BasicDevice<Real>& device(std::size_t stream) = 0;
  // Calls start(j), then finish(j), for every task j < tasks. On a CPU both run on the stream's
  // cores, and run() returns when all are done. On a GPU the calling thread makes all calls of
  // start(), which launch without waiting, before those of finish(), which may wait for results. An
  // exception of a task is rethrown; on a CPU that of the first stream, when all are done. The
  // order above holds in any case.
  virtual void run(std::size_t tasks, const Task& start, const Task& finish) = 0;
};

using Streams = BasicStreams<float>;

}  // namespace hetsgd
