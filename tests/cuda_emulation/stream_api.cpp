// Streams and events of the emulated runtime.
#include "emulation.hpp"

namespace hetsgd_emulation {

namespace {

// Destroyed streams whose work waits for that of others.
std::vector<std::shared_ptr<Queue>>& orphans() {
  static auto* const all = new std::vector<std::shared_ptr<Queue>>;
  return *all;
}

}  // namespace

cudaError_t checked_stream(cudaStream_t stream, std::shared_ptr<Queue>& queue) {
  if (stream == nullptr) misuse("the default stream is not emulated: use a stream of your own");
  int gpu = 0;
  queue = stream->queue;
  return cudaGetDevice(&gpu);
}

}  // namespace hetsgd_emulation

using namespace hetsgd_emulation;

struct CUevent_st {
  int gpu = 0;
  Point point = {};  // where it was recorded last
};

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  int gpu = 0;
  if (const cudaError_t status = cudaGetDevice(&gpu); status != cudaSuccess) return status;
  if (flags != cudaStreamNonBlocking) {
    misuse("streams that wait for the default stream are not emulated: cudaStreamNonBlocking");
  }
  *stream = new CUstream_st{make_queue(gpu)};
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return report(cudaErrorInvalidResourceHandle);
  {
    Lock lock(mutex);
    if (!advance(lock, *stream->queue, stream->queue->given)) orphans().push_back(stream->queue);
  }
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  Lock lock(mutex);
  wait_for(lock, *queue, queue->given);
  return cudaSuccess;
}
// Does one operation, so that a caller that asks again and again makes progress.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  Lock lock(mutex);
  if (queue->done == queue->given) return cudaSuccess;
  advance(lock, *queue, queue->done + 1);
  return report(cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  Lock lock(mutex);
  if (event->point.queue == nullptr) return cudaSuccess;  // never recorded
  push(lock, *queue, {.after = {event->point}});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  int gpu = 0;
  if (const cudaError_t status = cudaGetDevice(&gpu); status != cudaSuccess) return status;
  *event = new CUevent_st{.gpu = gpu};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  if (event->gpu != queue->gpu) return report(cudaErrorInvalidResourceHandle);
  Lock lock(mutex);
  event->point = {queue, queue->given + 1};  // before others can ask for it
  push(lock, *queue, {});
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(mutex);
  const Point point = event->point;
  if (point.queue) wait_for(lock, *point.queue, point.count);
  return cudaSuccess;
}

}  // extern "C"
