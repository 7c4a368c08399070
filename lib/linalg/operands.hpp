// Structs that kernels take and return. They are plain and apart from device.hpp, because CUDA
// sources read them too and must not include fmt.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hetsgd {

enum class Transpose { no, yes };

// Input precision of dense products of floats. Operands and results stay floats, and sums have 24
// bits. tf32 and bf16 let a GPU's tensor cores round the factors to 11 and 8 bits. cuBLAS may keep
// more bits than requested: on an H200 it takes TF32 for BF16. A CPU has no tf32. Its bf16 rounds
// each factor to the nearest BF16 number and adds the products in a defined order, so that every
// x86-64 processor, with AMX or without, computes the same bits.
enum class Precision { fp32, tf32, bf16 };

// A CSR batch: `rows` rows gathered by `row` from a larger CSR matrix. row == nullptr: rows
// 0..rows-1. value == nullptr: all values are 1 (labels). Kernels take the result of their device's
// stage() for a batch in host memory.
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

// A batch of rows with dense columns and one category per field, gathered by `row` from larger
// arrays. row == nullptr: rows 0..rows-1. A category is the number of a row of one table for all
// fields, and no two fields share one. Kernels take the result of their device's stage().
template <class Real>
struct FieldRows {
  std::size_t rows = 0;
  std::size_t columns = 0;  // dense columns
  std::size_t fields = 0;
  std::size_t categories = 0;               // of all fields
  const std::uint32_t* row = nullptr;       // [rows]
  const float* dense = nullptr;             // [. x columns]; data are float whatever Real is
  const std::uint32_t* category = nullptr;  // [. x fields]

  std::size_t source_row(std::size_t i) const { return row ? row[i] : i; }
};

// Where the rows of a batch lie in a map of tokens [tokens x width]. Row r has the tokens begin[r],
// ..., begin[r] + length[r] - 1, and begins ascend. All other tokens are padding. Host memory.
struct TokenSpans {
  std::size_t tokens = 0;  // of the map
  std::size_t rows = 0;
  const std::uint32_t* begin = nullptr;   // [rows]
  const std::uint32_t* length = nullptr;  // [rows], at least 1

  // Calls f(first token, number of tokens) for the padding behind each row and before the first.
  template <class F>
  void for_padding(const F& f) const {
    std::size_t next = 0;
    for (std::size_t r = 0; r <= rows; ++r) {
      const std::size_t first = r < rows ? begin[r] : tokens;
      if (first > next) f(next, first - next);
      if (r < rows) next = first + length[r];
    }
  }
};

// Inner products of two vectors, see BasicDevice::products.
struct Products {
  double xy = 0, xx = 0, yy = 0;  // x.y, ||x||^2, ||y||^2
};

// A sum that its device may still be computing. Reading it (as a double) waits for it, but not for
// later work of the device. Valid until the device's next call that returns one.
class DeferredSum {
 public:
  class Source {
   public:
    virtual ~Source() = default;
    // The sum of the `call`-th call; checks that this was the last one.
    virtual double await(std::uint64_t call) const = 0;
  };
  DeferredSum(double value) : value_(value) {}  // NOLINT: a finished sum
  DeferredSum(const Source& source, std::uint64_t call) : source_(&source), call_(call) {}
  operator double() const { return source_ ? source_->await(call_) : value_; }  // NOLINT

 private:
  const Source* source_ = nullptr;
  std::uint64_t call_ = 0;
  double value_ = 0;
};

}  // namespace hetsgd
