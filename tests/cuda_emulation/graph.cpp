// Captured operations, and their replay.
#include <algorithm>
#include <atomic>

#include "emulation.hpp"

namespace hetsgd_emulation {

namespace {

std::atomic<int> global_captures{0};
thread_local int own_captures = 0;

using Nodes = std::vector<Node>;

void count_capture(cudaStreamCaptureMode mode, int change) {
  if (mode == cudaStreamCaptureModeGlobal) global_captures += change;
  if (mode == cudaStreamCaptureModeThreadLocal) own_captures += change;
}

// Whether every stream that joined was waited for by the one that began.
bool all_joined(const Capture& capture) {
  std::vector<bool> seen(capture.nodes.size(), false);
  std::vector<std::size_t> open = capture.origin->tails;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (seen[node]) continue;
    seen[node] = true;
    const auto& after = capture.nodes[node].after;
    open.insert(open.end(), after.begin(), after.end());
  }
  return std::find(seen.begin(), seen.end(), false) == seen.end();
}

// In the order of the capture, or in a random one that respects the dependencies.
std::vector<std::size_t> order_of(const Nodes& nodes) {
  std::vector<std::size_t> order;
  std::vector<bool> done(nodes.size(), false);
  while (order.size() < nodes.size()) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto& after = nodes[i].after;
      if (!done[i] && std::all_of(after.begin(), after.end(), [&](auto j) { return done[j]; })) {
        ready.push_back(i);
        if (settings().order != Order::random) break;
      }
    }
    const std::size_t next = ready[random_below(ready.size())];
    done[next] = true;
    order.push_back(next);
  }
  return order;
}

cudaGraphExecUpdateResult compare(const Nodes& old_nodes, const Nodes& new_nodes) {
  if (old_nodes.size() != new_nodes.size()) return cudaGraphExecUpdateErrorTopologyChanged;
  for (std::size_t i = 0; i < old_nodes.size(); ++i) {
    if (old_nodes[i].after != new_nodes[i].after) return cudaGraphExecUpdateErrorTopologyChanged;
    if (old_nodes[i].operation.kind != new_nodes[i].operation.kind) {
      return cudaGraphExecUpdateErrorNodeTypeChanged;
    }
  }
  return cudaGraphExecUpdateSuccess;
}

}  // namespace

bool capture_forbids() { return global_captures > 0 || own_captures > 0; }

}  // namespace hetsgd_emulation

using namespace hetsgd_emulation;

struct CUgraph_st {
  std::shared_ptr<const Nodes> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const Nodes> nodes;
};

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  const Lock lock(mutex);
  if (queue->capture) return report(cudaErrorInvalidValue);
  queue->capture = std::make_shared<Capture>();
  queue->capture->origin = queue;
  queue->capture->mode = mode;
  queue->tails.clear();
  count_capture(mode, 1);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const Lock lock(mutex);
  const std::shared_ptr<Queue> queue = stream->queue;
  const std::shared_ptr<Capture> capture = queue->capture;
  if (capture == nullptr) return report(cudaErrorInvalidValue);
  if (capture->origin != queue) return report(cudaErrorStreamCaptureUnmatched);
  const bool joined = all_joined(*capture);
  count_capture(capture->mode, -1);
  capture->joined.push_back(queue);
  for (const auto& member : capture->joined) {
    member->capture = nullptr;
    member->tails.clear();
  }
  capture->joined.clear();
  capture->origin = nullptr;
  if (capture->invalid) return report(cudaErrorStreamCaptureInvalidated);
  if (!joined) return report(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::make_shared<const Nodes>(std::move(capture->nodes))};
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Lock lock(mutex);
  const auto& capture = stream->queue->capture;
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->invalid ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes != nullptr) return report(cudaErrorInvalidValue);  // only counted here
  *count = graph->nodes->size();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  *info = {.result = compare(*exec->nodes, *graph->nodes),
           .errorNode = nullptr,
           .errorFromNode = nullptr};
  if (info->result != cudaGraphExecUpdateSuccess) return report(cudaErrorGraphExecUpdateFailure);
  exec->nodes = graph->nodes;  // launches so far keep what they have
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  std::shared_ptr<Queue> queue;
  if (const cudaError_t status = checked_stream(stream, queue); status != cudaSuccess) {
    return status;
  }
  Lock lock(mutex);
  Arenas touches = 0;
  for (const Node& node : *exec->nodes) touches |= node.operation.touches;
  push(lock, *queue,
       {.kind = Kind::graph,
        .name = "graph",
        .touches = touches,
        .run =
            [nodes = exec->nodes, order = order_of(*exec->nodes)] {
              for (const std::size_t i : order) {
                if ((*nodes)[i].operation.run) (*nodes)[i].operation.run();
              }
            },
        .after = {}});
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

}  // extern "C"
