#include "cluster/reduce.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/error.hpp"
#include "core/processors.hpp"

namespace hetsgd {

namespace {

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    // Whole numbers wrap around instead of being undefined.
    if constexpr (std::is_same_v<T, std::int64_t>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
      return a + b;
    }
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};

// The accumulator's block: 8 KiB leaves room in a 32 KiB first cache for the stream that is added.
constexpr std::size_t kBlockBytes = 8192;

template <class T, class Op>
HETSGD_FOR_EACH_PROCESSOR void reduce_blocks(std::span<const void* const> in,
                                             std::span<void* const> out, std::size_t begin,
                                             std::size_t end, Op op) {
  constexpr std::size_t kBlock = kBlockBytes / sizeof(T);
  alignas(64) T sum[kBlock];
  for (std::size_t at = begin; at < end; at += kBlock) {
    const std::size_t n = std::min(kBlock, end - at);
    const T* x0 = static_cast<const T*>(in[0]) + at;
    if (in.size() == 1) {
      std::memcpy(sum, x0, n * sizeof(T));
    } else {
      const T* x1 = static_cast<const T*>(in[1]) + at;
      for (std::size_t i = 0; i < n; ++i) sum[i] = op(x0[i], x1[i]);
    }
    for (std::size_t r = 2; r < in.size(); ++r) {
      const T* x = static_cast<const T*>(in[r]) + at;
      for (std::size_t i = 0; i < n; ++i) sum[i] = op(sum[i], x[i]);
    }
    for (void* y : out) std::memcpy(static_cast<T*>(y) + at, sum, n * sizeof(T));
  }
}

template <class T>
void reduce_typed(std::span<const void* const> in, std::span<void* const> out, std::size_t begin,
                  std::size_t end, ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return reduce_blocks<T>(in, out, begin, end, Sum{});
    case ReduceOp::max:
      return reduce_blocks<T>(in, out, begin, end, Max{});
    case ReduceOp::min:
      return reduce_blocks<T>(in, out, begin, end, Min{});
  }
}

}  // namespace

void reduce_in_rank_order(std::span<const void* const> in, std::span<void* const> out,
                          std::size_t begin, std::size_t end, Element element, ReduceOp op) {
  HETSGD_CHECK(!in.empty());
  HETSGD_CHECK(element != Element::byte);
  if (begin >= end) return;
  switch (element) {
    case Element::float32:
      return reduce_typed<float>(in, out, begin, end, op);
    case Element::float64:
      return reduce_typed<double>(in, out, begin, end, op);
    case Element::int64:
      return reduce_typed<std::int64_t>(in, out, begin, end, op);
    case Element::byte:
      return;
  }
}

}  // namespace hetsgd
