// What kernels are called with. Plain structs, apart from device.hpp: CUDA sources read them too,
// and those must not include fmt.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hetsgd {

// A CSR batch: `rows` rows gathered by `row` from a larger CSR matrix. row == nullptr: rows
// 0..rows-1. value == nullptr: all values are 1 (labels). Kernels take what their device's stage()
// made of a batch in host memory.
template <class Real>
struct SparseRows {
  std::size_t rows = 0;
  std::size_t columns = 0;
  const std::uint32_t* row = nullptr;    // [rows] numbers of rows in the matrix
  const std::uint64_t* begin = nullptr;  // CSR offsets of the matrix
  const std::uint32_t* index = nullptr;  // column numbers
  const float* value = nullptr;          // data are float whatever Real is

  std::size_t source_row(std::size_t i) const { return row ? row[i] : i; }
};

// A batch of rows with dense columns and one category per field, gathered by `row` from larger arrays.
// row == nullptr: rows 0..rows-1. A category is the number of a row of one table for all fields, and
// two fields have none in common. Kernels take what their device's stage() made.
template <class Real>
struct FieldRows {
  std::size_t rows = 0;
  std::size_t columns = 0;  // dense ones
  std::size_t fields = 0;
  std::size_t categories = 0;               // of all fields
  const std::uint32_t* row = nullptr;       // [rows]
  const float* dense = nullptr;             // [. x columns]; data are float whatever Real is
  const std::uint32_t* category = nullptr;  // [. x fields]

  std::size_t source_row(std::size_t i) const { return row ? row[i] : i; }
};

// What two vectors have to do with each other, see BasicDevice::products.
struct Products {
  double xy = 0, xx = 0, yy = 0;  // x.y, ||x||^2, ||y||^2
};

}  // namespace hetsgd
