// The sum of the workers' gradients behind the backward pass, as Horovod and PyTorch's
// DistributedDataParallel make it.
//
// The backward pass completes the gradient in parts, the output layer's first. Parts that follow
// each other are fused into buckets of at most so many bytes; a larger part is a bucket by itself,
// for none is cut. As soon as a bucket is there its all_reduce starts, and goes on while the parts
// below are computed. The all_reduces are made one after the other.
//
//   compute   | forward, bucket 0 | bucket 1 | bucket 2 |            | update |
//   network                       |==== bucket 0 ====|== 1 ==|== 2 ==|
//
// Each element is the sum over the ranks in rank order, and so has the bits of one all_reduce of
// the whole gradient. (NCCL and the tree add in another order, which may depend on the length.)
//
// Source: Sergeev, Del Balso, Horovod, 2018 (tensor fusion: 64 MB); Li et al., PyTorch Distributed,
// VLDB 2020, section 3.2.3.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "algorithm/worker.hpp"

namespace hetsgd {

// Belongs to one worker, and is the same on all: its calls are collective. A group of several.
class OverlappedSum {
 public:
  // bucket_bytes: as they are charged, which under --charge is of the full-size model.
  OverlappedSum(Worker& self, std::uint64_t bucket_bytes) {
    const Model& model = self.model();
    const auto most = static_cast<double>(bucket_bytes);
    for (std::size_t part = 0; part < model.gradient_parts(); ++part) {
      const Extent e = model.gradient_part(part);
      if (!elements_.empty()) {
        Extent& last = elements_.back();
        const bool fits = self.charged_bytes(last.size() + e.size()) <= most;
        if (fits && (e.end == last.begin || e.begin == last.end)) {
          last = {std::min(last.begin, e.begin), std::max(last.end, e.end)};
          parts_.back().end = part + 1;
          continue;
        }
      }
      elements_.push_back(e);
      parts_.push_back({part, part + 1});
    }
  }

  // One iteration: replica.gradient <- sum over the workers of share * (gradient of its batch).
  void operator()(Worker& self, Replica& replica, const Batch& batch, double share) {
    sums_.clear();
    self.gradient_in_pieces(replica, batch, parts_, [&](std::size_t i) {
      const std::span<float> bucket =
          replica.gradient.flat.span().subspan(elements_[i].begin, elements_[i].size());
      self.scale(share, bucket);
      sums_.push_back(self.comm().start(all_reduce(bucket, ReduceOp::sum, Traffic::gradients)));
    });
    for (Pending& sum : sums_) sum.wait();
    replica.gradient_is_dense = true;
  }

 private:
  std::vector<Extent> parts_, elements_;  // by bucket
  std::vector<Pending> sums_;             // gone before the replica whose memory they use
};

}  // namespace hetsgd
