// A copy past the caches, for data that fits in none of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hetsgd {

// From this size on (bytes) a copy is streamed: its beginning has left the caches before its end is
// copied.
inline constexpr std::size_t kStreamedCopy = std::size_t{16} << 20;

// Copies as std::memcpy. Stores that go past the caches need not read the lines that they
// overwrite, a third of a copy's traffic. Code that reads the copy soon afterwards finds it in
// memory, not in a cache. Once the call has returned, every thread that synchronises with this one
// sees the copy.
inline void stream_copy(void* to, const void* from, std::size_t bytes) {
  auto* const out = static_cast<std::byte*>(to);
  const auto* const in = static_cast<const std::byte*>(from);
  std::size_t at = 0;
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64, kStore = 16;
  at = std::min(bytes, (0 - reinterpret_cast<std::uintptr_t>(out)) % kLine);
  if (at > 0) std::memcpy(out, in, at);
  for (; at + kLine <= bytes; at += kLine) {
    for (std::size_t i = at; i < at + kLine; i += kStore) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + i),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
    }
  }
  _mm_sfence();
#endif
  if (at < bytes) std::memcpy(out + at, in + at, bytes - at);
}

}  // namespace hetsgd
