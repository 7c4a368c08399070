#include "linalg/cuda/host_tier.hpp"

#include <algorithm>
#include <iterator>

namespace hetsgd::cuda {

namespace {

constexpr const char* kPurpose = "rows of tables in host memory";

}  // namespace

template <class Real>
std::vector<Real*> HostTier<Real>::vectors_of(const ShardRows<Real>& shard, Vectors vectors) const {
  std::vector<Real*> all{shard.host_w};
  for (Real* const state : shard.host_state) {
    if (state != nullptr && vectors == Vectors::weights_and_state) all.push_back(state);
  }
  return all;
}

// Ascending, so that the host reads its memory in one direction.
template <class Real>
void HostTier<Real>::list_host_rows(const ShardRows<Real>& shard, std::size_t n,
                                    const std::uint32_t* row) {
  rows_.clear();
  std::copy_if(row, row + n, std::back_inserter(rows_),
               [&](std::uint32_t each) { return each >= shard.on_device; });
  std::sort(rows_.begin(), rows_.end());
  rows_.erase(std::unique(rows_.begin(), rows_.end()), rows_.end());
  number_.assign(row, row + n);
  for (std::uint32_t& each : number_) {
    if (each < shard.on_device) continue;
    const auto at = std::lower_bound(rows_.begin(), rows_.end(), each) - rows_.begin();
    each = static_cast<std::uint32_t>(shard.on_device + static_cast<std::size_t>(at));
  }
  for (std::uint32_t& each : rows_) each -= static_cast<std::uint32_t>(shard.on_device);
}

template <class Real>
template <class Fn>
void HostTier<Real>::for_each_row(const Fn& fn) const {
  for (std::size_t v = 0; v < host_.size(); ++v) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      fn(there_ + (v * rows_.size() + i) * stride_, host_[v] + rows_[i] * stride_);
    }
  }
}

template <class Real>
void HostTier<Real>::copy(void* to, const void* from, cudaMemcpyKind kind) {
  HETSGD_CUDA(cudaMemcpyAsync(to, from, bytes_, kind, stream_.get()));
  copied_.record(stream_);
}

template <class Real>
typename HostTier<Real>::Reached HostTier<Real>::bring(const ShardRows<Real>& shard, std::size_t n,
                                                       const std::uint32_t* row, Vectors vectors) {
  bytes_ = 0;
  if (shard.host_access == HostAccess::direct || shard.host_w == nullptr) return {shard, row};
  list_host_rows(shard, n, row);
  if (rows_.empty()) return {shard, row};
  host_ = vectors_of(shard, vectors);
  stride_ = shard.stride;
  const std::size_t each = rows_.size() * stride_, numbers = host_.size() * each;
  bytes_ = numbers * sizeof(Real);
  copied_.wait();
  there_ = reinterpret_cast<Real*>(pinned_.reserve(bytes_, kPurpose));
  here_ = device_.template reserve<Real>(numbers, kPurpose);
  for_each_row([&](Real* to, const Real* from) { std::copy_n(from, stride_, to); });
  copy(here_, there_, cudaMemcpyHostToDevice);
  Reached reached{shard, number_.data()};
  reached.shard.rows = shard.on_device + rows_.size();
  reached.shard.host_w = here_;
  std::size_t next = 1;
  for (Real*& state : reached.shard.host_state) {
    if (state != nullptr) state = next < host_.size() ? here_ + each * next++ : nullptr;
  }
  return reached;
}

template <class Real>
void HostTier<Real>::take_back() {
  if (bytes_ == 0) return;
  copy(there_, here_, cudaMemcpyDeviceToHost);
  copied_.wait();
  for_each_row([&](const Real* from, Real* to) { std::copy_n(from, stride_, to); });
}

template class HostTier<float>;
template class HostTier<double>;

}  // namespace hetsgd::cuda
