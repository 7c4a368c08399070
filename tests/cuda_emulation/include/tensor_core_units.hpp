// The units of a Hopper GPU as kernels call them, in ../tensor_core.cpp. emulated_tensor_core.hpp
// gives them the names of linalg/cuda/tensor_core.cuh.
#pragma once

#include <cstdint>

#include "half_numbers.hpp"

namespace hetsgd_emulation {

// The offset of an address in the block's shared memory, which ends the program if it lies
// elsewhere. As on a GPU, offset 0 is not a kernel's.
std::uint32_t shared_address(const void* memory);

void start_barrier(std::uint64_t* barrier, unsigned count);
void arrive(std::uint64_t* barrier, unsigned bytes);
void await(std::uint64_t* barrier, unsigned parity);
// A barrier of the block with a number, at which so many threads meet.
void meet_at(unsigned number, unsigned threads, bool waits);
void copy_to_shared(void* shared, const void* global, unsigned bytes, std::uint64_t* barrier);

// One thread's part of a product of its warpgroup: D [64 x columns] (+)= A B over 16 columns of A.
struct Product {
  bool fp16;         // else BF16
  bool by_rows;      // whether the tile is B, else it is B^T
  unsigned columns;  // of D, of which the thread has half as many numbers
  float* D;          // the thread's part of the accumulator
  const void* A;     // four words with numbers of A, or null: A is the tile `A_tile`
  std::uint32_t A_tile, B_tile;
  bool add;
};
void begin_products();
void add_product(const Product& product);
void end_products();
void await_products(unsigned pending);

std::uint32_t tile_operand(const void* tile, std::uint32_t half_stride);

}  // namespace hetsgd_emulation
