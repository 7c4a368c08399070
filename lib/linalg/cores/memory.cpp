#include "linalg/cores/memory.hpp"

#include <sys/mman.h>

#include <cstdlib>

#include "core/error.hpp"

namespace hetsgd::cpu {

namespace {
constexpr std::size_t kLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kHugeFrom = 2 * kHugePage;
constexpr std::size_t kAddressSpace = std::size_t{1}
                                      << 46;  // no machine has more; rounding cannot wrap
}  // namespace

void* allocate_aligned(std::size_t bytes) {
  const std::size_t alignment = bytes >= kHugeFrom ? kHugePage : kLine;
  const std::size_t rounded = bytes == 0 ? kLine : (bytes + alignment - 1) / alignment * alignment;
  void* memory = bytes > kAddressSpace ? nullptr : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) {
    throw with_hint(device_error("cpu: out of memory: {} bytes were asked for", bytes),
                    "use a smaller batch, fewer workers or a smaller model");
  }
  // This is only advice. If the kernel refuses it, small pages work as well, but slower.
  if (bytes >= kHugeFrom) (void)madvise(memory, rounded, MADV_HUGEPAGE);
  return memory;
}

void release_aligned(void* memory) noexcept { std::free(memory); }

}  // namespace hetsgd::cpu
