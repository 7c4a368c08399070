// Large arrays on large pages: first touching 100 MB costs 25,000 page faults of 4 KiB, or 50 of 2
// MiB.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hetsgd {

// Asks for large pages before the memory is touched. This is only advice: if the system has none to
// give, nothing changes.
inline void advise_huge_pages(void* memory, std::size_t bytes) {
  constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + kHugePage - 1) & ~(kHugePage - 1);
  const std::uintptr_t last = (begin + bytes) & ~(kHugePage - 1);
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

// values.resize(count), on large pages.
template <class T>
void resize_on_huge_pages(std::vector<T>& values, std::size_t count) {
  values.reserve(count);
  advise_huge_pages(values.data(), count * sizeof(T));
  values.resize(count);
}

}  // namespace hetsgd
