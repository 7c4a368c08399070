// Rows of embedding tables come from memory in random order, which no hardware prefetcher foresees.
#pragma once

#include <cstddef>

namespace hetsgd::cpu {

// Asks for a row that will be needed soon.
template <class Real>
void prefetch_table_row(const Real* row, std::size_t width) {
  const char* const begin = reinterpret_cast<const char*>(row);
  const char* const end = begin + width * sizeof(Real);
  for (const char* p = begin; p < end; p += 64) __builtin_prefetch(p);
  __builtin_prefetch(end - 1);
}

}  // namespace hetsgd::cpu
