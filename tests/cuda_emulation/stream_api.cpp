// Streams and events of the emulated runtime.
#include <chrono>

#include "emulation.hpp"

namespace hetsgd_emulation {

namespace {

using Clock = std::chrono::steady_clock;

// Destroyed streams whose work waits for that of others.
std::vector<std::shared_ptr<Queue>>& orphans() {
  static auto* const all = new std::vector<std::shared_ptr<Queue>>;
  return *all;
}

}  // namespace

cudaError_t checked_stream(cudaStream_t stream, std::shared_ptr<Queue>& queue) {
  if (stream == nullptr) misuse("the default stream is not emulated: use a stream of your own");
  if (int gpu = 0; cudaGetDevice(&gpu) != cudaSuccess) return cudaPeekAtLastError();
  queue = stream->queue;
  const Lock lock(mutex);
  if (queue->capture && queue->capture->invalid) return report(cudaErrorStreamCaptureInvalidated);
  return cudaSuccess;
}

}  // namespace hetsgd_emulation

using namespace hetsgd_emulation;

struct CUevent_st {
  bool timing = true;
  int gpu = 0;
  // Where it was recorded last: in a queue, or in what a queue captured.
  Point point = {};
  std::shared_ptr<Clock::time_point> time = nullptr;
  std::shared_ptr<Capture> capture = nullptr;
  std::vector<std::size_t> nodes = {};
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
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
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
  if (queue->capture) queue->capture->invalid = true;
  if (queue->capture || capture_forbids()) return report(cudaErrorStreamCaptureUnsupported);
  wait_for(lock, *queue, queue->given);
  return cudaSuccess;
}
// Does one operation, so that who asks again and again gets on.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  Lock lock(mutex);
  if (queue->capture) queue->capture->invalid = true;
  if (queue->capture || capture_forbids()) return report(cudaErrorStreamCaptureUnsupported);
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
  if (event->capture) {
    if (event->capture->origin == nullptr) return report(cudaErrorCapturedEvent);  // it has ended
    if (queue->capture == nullptr) {
      queue->capture = event->capture;
      queue->capture->joined.push_back(queue);
    } else if (queue->capture != event->capture) {
      return report(cudaErrorStreamCaptureIsolation);
    }
    queue->tails.insert(queue->tails.end(), event->nodes.begin(), event->nodes.end());
    return cudaSuccess;
  }
  if (event->point.queue == nullptr) return cudaSuccess;  // never recorded
  if (queue->capture) {
    queue->capture->invalid = true;
    return report(cudaErrorStreamCaptureIsolation);
  }
  push(lock, *queue, {.kind = Kind::mark, .name = "wait", .run = {}, .after = {event->point}});
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  Lock lock(mutex);
  push(lock, *queue,
       {.kind = Kind::host, .name = "host", .run = [=] { function(argument); }, .after = {}});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  int gpu = 0;
  if (const cudaError_t status = cudaGetDevice(&gpu); status != cudaSuccess) return status;
  *event = new CUevent_st{.timing = (flags & cudaEventDisableTiming) == 0, .gpu = gpu};
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
  event->capture = queue->capture;
  event->nodes = queue->tails;
  if (queue->capture) return cudaSuccess;
  const auto time = std::make_shared<Clock::time_point>();
  event->time = time;
  event->point = {queue, queue->given + 1};  // before others can ask for it
  push(lock, *queue,
       {.kind = Kind::mark, .name = "event", .run = [=] { *time = Clock::now(); }, .after = {}});
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Lock lock(mutex);
  if (event->capture) {
    event->capture->invalid = true;
    return report(cudaErrorCapturedEvent);
  }
  if (capture_forbids()) return report(cudaErrorStreamCaptureUnsupported);
  const Point point = event->point;
  if (point.queue) wait_for(lock, *point.queue, point.count);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(mutex);
  if (event->capture) {
    event->capture->invalid = true;
    return report(cudaErrorCapturedEvent);
  }
  if (capture_forbids()) return report(cudaErrorStreamCaptureUnsupported);
  const Point point = event->point;
  if (point.queue == nullptr || point.queue->done >= point.count) return cudaSuccess;
  advance(lock, *point.queue, point.queue->done + 1);
  return report(cudaErrorNotReady);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  Lock lock(mutex);
  for (const cudaEvent_t event : {from, to}) {
    if (!event->timing || event->time == nullptr) return report(cudaErrorInvalidResourceHandle);
    if (event->point.queue->done < event->point.count) return report(cudaErrorNotReady);
  }
  *milliseconds = std::chrono::duration<float, std::milli>(*to->time - *from->time).count();
  return cudaSuccess;
}

}  // extern "C"
