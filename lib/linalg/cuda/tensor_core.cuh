// The units of Hopper GPUs (compute capability 9.0) that the fused softmax layer works with, each a
// function around one instruction: products of a warpgroup (wgmma), copies of the bulk copy engine,
// barriers of transactions (mbarrier), exchange of registers between warpgroups.
//
// Terms. A warpgroup is four warps, 128 threads. An operand tile in shared memory is a matrix of
// 16-bit numbers, 128 columns in two halves of 64:
//   [half][row][64 columns]: 128 bytes per row of a half, whose eight pieces of 16 bytes are
//   exchanged: piece c lies at place c ^ (row % 8), so that neither the products, which read
//   columns of pieces, nor the threads that write rows meet in one bank.
// It must begin at a multiple of 1,024 bytes, and its rows are a multiple of 8. Used by rows it is
// B^T of a product over its columns, S = A tile^T; used by columns it is B of a product over its
// rows, O = P tile.
//
// The accumulator of a product of 64 rows: warp w of the group has rows 16 w to 16 w + 15. Lane
// 4 g + t of the warp has rows g (i = 0) and g + 8 (i = 1), and in each of them columns
// 8 j + 2 t + e, e = 0, 1, at index 4 j + 2 i + e. An operand A in registers is
// [steps of 16 columns][4 words of two numbers]: columns 2 t and 2 t + 1 of row g, the same of row
// g + 8, then columns 8 + 2 t and 9 + 2 t of both. So the accumulator of one product, rounded pair
// by pair, is the operand of the next.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace hetsgd::cuda {

inline constexpr unsigned kWarpgroup = 128;
inline constexpr unsigned kTileColumns = 128, kHalfRowBytes = 128;

// Where 4-byte word `word` (two columns) of row `row` of a half lies, in bytes from the half.
HETSGD_HOST_DEVICE constexpr unsigned swizzled(unsigned row, unsigned word) {
  return row * kHalfRowBytes + ((word / 4 ^ row % 8) * 16 + word % 4 * 4);
}

#if defined(__CUDACC__) && !defined(HETSGD_EMULATED_CUDA)

struct Half16 {};   // FP16: 11 significant bits, as TF32 has
struct Brain16 {};  // BF16: 8 significant bits

// Two numbers rounded to nearest, x in the lower half.
template <class Format>
__device__ __forceinline__ std::uint32_t round_pair(float x, float y);
template <>
__device__ __forceinline__ std::uint32_t round_pair<Half16>(float x, float y) {
  std::uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
  return pair;
}
template <>
__device__ __forceinline__ std::uint32_t round_pair<Brain16>(float x, float y) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
  return pair;
}

__device__ __forceinline__ float power_of_two(float x) {  // exp2 within 2 ulp; -inf gives 0
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ std::uint32_t shared_address(const void* memory) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
}

// --- barriers of transactions --------------------------------------------------------------------
// A phase ends when `count` threads have arrived and all bytes that were announced have come.
using Barrier = std::uint64_t;

__device__ __forceinline__ void start_barrier(Barrier* barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count)
               : "memory");
}
// After start_barrier(), by the thread that called it and before the block's barrier.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(Barrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
__device__ __forceinline__ void arrive_with_bytes(Barrier* barrier, unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
// Waits for the end of a phase: 0 for the first, 1 for the second, 0 for the third ...
__device__ __forceinline__ void await(Barrier* barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// --- turns ---------------------------------------------------------------------------------------
// Barriers 1 to 15 of the block, each between two warpgroups: one gives the turn and goes on, the
// other waits for it.
__device__ __forceinline__ void give_turn(unsigned barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(2 * kWarpgroup) : "memory");
}
__device__ __forceinline__ void await_turn(unsigned barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(2 * kWarpgroup) : "memory");
}

// The threads of one warpgroup meet.
__device__ __forceinline__ void meet_warpgroup(unsigned barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kWarpgroup) : "memory");
}

// --- copies --------------------------------------------------------------------------------------
// Copies to shared memory; the barrier counts its bytes. 16-byte units.
__device__ __forceinline__ void copy_to_shared(void* shared, const void* global, unsigned bytes,
                                               Barrier* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(global), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}
// Makes what this thread wrote to shared memory visible to products that follow the next barrier.
__device__ __forceinline__ void publish_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// --- registers -----------------------------------------------------------------------------------
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// --- products ------------------------------------------------------------------------------------
// The description of an operand tile of `rows` rows, or of a part of it: the half of its 64 bits
// that tells where it begins and how far apart the halves are. The other half is the same for all.
__device__ __forceinline__ std::uint32_t tile_operand(const void* tile, unsigned rows) {
  return (shared_address(tile) & 0x3FFFFU) >> 4 | (rows * kHalfRowBytes >> 4) << 16;
}
// A swizzle of 128 bytes, and eight rows.
inline constexpr std::uint32_t kTileOperand = 1U << 30 | 8 * kHalfRowBytes >> 4;
// Steps of 16 in the description: along columns (step 0 to 7), along rows.
__device__ __forceinline__ std::uint32_t at_columns(std::uint32_t tile, unsigned rows,
                                                    unsigned step) {
  return tile + ((step / 4 * rows * kHalfRowBytes + step % 4 * 32) >> 4);
}
__device__ __forceinline__ std::uint32_t at_rows(std::uint32_t tile, unsigned step) {
  return tile + (step * 16 * kHalfRowBytes >> 4);
}
// The number of this thread's warpgroup, in a form that the compiler knows to be the same in a
// warp.
__device__ __forceinline__ unsigned warpgroup() {
  return __shfl_sync(0xFFFFFFFFU, threadIdx.x / kWarpgroup, 0);
}

// Products are asynchronous. begin_products() comes after all writes to their registers, then the
// products, then end_products(), and await_products<n>() returns when all but the last n such
// groups are over.
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kPending = 0>
__device__ __forceinline__ void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// The registers of an accumulator are listed one by one, because the instruction names them.
#define HETSGD_8(D, i)                                                                        \
  "+f"(D[i]), "+f"(D[i + 1]), "+f"(D[i + 2]), "+f"(D[i + 3]), "+f"(D[i + 4]), "+f"(D[i + 5]), \
      "+f"(D[i + 6]), "+f"(D[i + 7])
#define HETSGD_16(D, i) HETSGD_8(D, i), HETSGD_8(D, i + 8)
#define HETSGD_32(D, i) HETSGD_8(D, i), HETSGD_8(D, i + 8), HETSGD_8(D, i + 16), HETSGD_8(D, i + 24)
#define HETSGD_NAMES_32                                                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, "                                                                                      \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define HETSGD_NAMES_48 \
  HETSGD_NAMES_32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define HETSGD_NAMES_64 \
  HETSGD_NAMES_48       \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// The three products for one format, which the instruction calls `type`:
//   S [64 x 96] = A B^T over 16 columns of both tiles
//   S [64 x 64] = A B^T over 16 columns; A in registers
//   O [64 x 128] += P B over 16 rows of the tile; P in registers
// `add` says whether S is added to.
#define HETSGD_PRODUCTS(Format, type)                                                             \
  __device__ __forceinline__ void multiply_columns(Format, float(&D)[48], std::uint32_t A,        \
                                                   std::uint32_t B, bool add) {                   \
    asm volatile(                                                                                 \
        "{\n.reg .pred add;\n.reg .b64 a, b;\nsetp.ne.b32 add, %50, 0;\n"                         \
        "mov.b64 a, {%48, %51};\nmov.b64 b, {%49, %51};\n"                                        \
        "wgmma.mma_async.sync.aligned.m64n96k16.f32." type "." type " {" HETSGD_NAMES_48          \
        "}, a, b, add, 1, 1, 0, 0;\n}"                                                            \
        : HETSGD_32(D, 0), HETSGD_16(D, 32)                                                       \
        : "r"(A), "r"(B), "r"(static_cast<int>(add)), "n"(kTileOperand));                         \
  }                                                                                               \
  __device__ __forceinline__ void multiply_columns(Format, float(&D)[32], const std::uint32_t* A, \
                                                   std::uint32_t B, bool add) {                   \
    asm volatile(                                                                                 \
        "{\n.reg .pred add;\n.reg .b64 b;\nsetp.ne.b32 add, %37, 0;\nmov.b64 b, {%36, %38};\n"    \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" HETSGD_NAMES_32          \
        "}, {%32, %33, %34, %35}, b, add, 1, 1, 0;\n}"                                            \
        : HETSGD_32(D, 0)                                                                         \
        : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B), "r"(static_cast<int>(add)),         \
          "n"(kTileOperand));                                                                     \
  }                                                                                               \
  __device__ __forceinline__ void multiply_rows(Format, float(&D)[64], const std::uint32_t* A,    \
                                                std::uint32_t B) {                                \
    asm volatile(                                                                                 \
        "{\n.reg .b64 b;\nmov.b64 b, {%68, %69};\n"                                               \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" HETSGD_NAMES_64         \
        "}, {%64, %65, %66, %67}, b, 1, 1, 1, 1;\n}"                                              \
        : HETSGD_32(D, 0), HETSGD_32(D, 32)                                                       \
        : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B), "n"(kTileOperand));                 \
  }
HETSGD_PRODUCTS(Half16, "f16")
HETSGD_PRODUCTS(Brain16, "bf16")

#undef HETSGD_PRODUCTS
#undef HETSGD_8
#undef HETSGD_16
#undef HETSGD_32
#undef HETSGD_NAMES_32
#undef HETSGD_NAMES_48
#undef HETSGD_NAMES_64

#endif

}  // namespace hetsgd::cuda

#ifdef HETSGD_EMULATED_CUDA
#include <emulated_tensor_core.hpp>  // tests/cuda_emulation: the same functions on a CPU
#endif
