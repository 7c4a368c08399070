#include "cluster/cuda/tree_group.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "linalg/cuda/index.hpp"

namespace hetsgd::cuda {

// A partition has a stream on every GPU. Whatever happens to a piece of rank j's vector is in the
// stream of j's GPU; an event takes the order from one GPU's stream to another's.
class TreeGroup::Tree {
 public:
  Tree(const TreeGroup& group, int root) : group_(group), root_(root) {
    for (int rank = 0; rank < group.size(); ++rank) {
      auto& place = places_[group.gpu(rank)];
      if (!place) place = make_on<Place>(group.gpu(rank));
    }
  }

  void all_reduce(Block slice, const CollectiveCall& call, Outputs x) {
    const std::size_t width = element_bytes(call.element);
    const std::size_t piece = ceil_divide(group_.piece_of(slice.size() * width), width);
    const int p = group_.size();
    int top = 1;
    while (2 * top < p) top *= 2;
    for (std::size_t begin = slice.begin; begin < slice.end; begin += piece) {
      const std::size_t n = std::min(piece, slice.end - begin);
      const auto part = [&](int v) {
        return static_cast<std::byte*>(x[static_cast<std::size_t>(rank(v))]) + begin * width;
      };
      for (int distance = 1; distance < p; distance *= 2) {
        for (int v = 0; v + distance < p; v += 2 * distance) {
          add(call, n, v, part(v), v + distance, part(v + distance));
        }
      }
      for (int distance = top; distance > 0; distance /= 2) {
        for (int v = 0; v + distance < p; v += 2 * distance) {
          copy(v, part(v), v + distance, part(v + distance), n * width);
        }
      }
    }
    synchronize();
  }

  void settle() const noexcept {
    try {
      synchronize();
    } catch (...) {
    }
  }

 private:
  struct Place {
    Stream stream;
    Event done;  // marks what its stream was given before the last order()
    DeviceMemory incoming{stream};
  };

  // Ranks count from the root.
  int rank(int v) const { return (root_ + v) % group_.size(); }
  Place& place(int v) { return *places_.at(group_.gpu(rank(v))); }

  void synchronize() const {
    for (const auto& [gpu, place] : places_) place->stream.synchronize();
  }

  // Work that v's stream is given from now on comes after all that `after`'s stream was given so
  // far.
  void order(int after, int v) {
    if (&place(after) == &place(v)) return;
    place(after).done.record(place(after).stream);
    place(after).done.hold(place(v).stream);
  }

  // parent <- parent op child, on the parent's GPU.
  void add(const CollectiveCall& call, std::size_t n, int v, void* parent, int w,
           const void* child) {
    const std::size_t bytes = n * element_bytes(call.element);
    HETSGD_CUDA(cudaSetDevice(group_.gpu(rank(v))));
    order(w, v);
    if (&place(v) != &place(w)) {
      void* const incoming =
          place(v).incoming.reserve<std::byte>(bytes, "what comes up a tree of GPUs");
      transfer(w, child, v, incoming, bytes);
      child = incoming;
    }
    const void* const both[] = {parent, child};
    reduce_on(place(v).stream, n, call.element, call.op, both, {&parent, 1});
  }

  // child <- parent, on the child's GPU.
  void copy(int v, const void* parent, int w, void* child, std::size_t bytes) {
    HETSGD_CUDA(cudaSetDevice(group_.gpu(rank(w))));
    order(v, w);
    transfer(v, parent, w, child, bytes);
  }

  // Copies in the stream of `to`.
  void transfer(int from, const void* source, int to, void* target, std::size_t bytes) {
    const int one = group_.gpu(rank(from)), other = group_.gpu(rank(to));
    const Stream& stream = place(to).stream;
    if (one == other) {
      HETSGD_CUDA(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToDevice, stream.get()));
    } else if (group_.direct(other, one)) {
      HETSGD_CUDA(cudaMemcpyPeerAsync(target, other, source, one, bytes, stream.get()));
    } else {
      auto& staging = stagings_[{one, other}];
      if (!staging) {
        staging = std::make_unique<Staging>(one, other);
        HETSGD_CUDA(cudaSetDevice(other));
      }
      staging->copy(target, source, bytes, place(from).stream, stream);
    }
  }

  const TreeGroup& group_;
  const int root_;
  std::map<int, std::unique_ptr<Place>> places_;  // by GPU
  std::map<std::pair<int, int>, std::unique_ptr<Staging>> stagings_;
};

TreeGroup::TreeGroup(std::vector<int> gpus, const GpuGroupOptions& options)
    : RingGroup(std::move(gpus), options), trees_(static_cast<std::size_t>(size())) {}

TreeGroup::~TreeGroup() = default;

void TreeGroup::all_reduce(int rank, const CollectiveCall& call, Inputs, Outputs out) {
  const Block slice = whole_lines(rank, size(), call.count, call.element);
  if (slice.size() == 0) return;
  auto& tree = trees_[static_cast<std::size_t>(rank)];
  if (!tree) tree = std::make_unique<Tree>(*this, rank);
  try {
    tree->all_reduce(slice, call, out);
  } catch (...) {
    tree->settle();  // what has been started still uses the others' buffers
    throw;
  }
}

}  // namespace hetsgd::cuda
