// The units of a Hopper GPU that work beside the threads of a block: the engine of bulk copies, its
// barriers of transactions, and the tensor cores' asynchronous products.
//
// Their work is over as late, or as early, as the rules allow, in turn from block to block. A late
// copy lands when all threads wait, the last one first; late products read their operands when they
// are waited for and all threads of the block wait. Early ones work at once. Either way the
// destination of a copy is NaN until it has landed, and an accumulator is NaN until it has been
// waited for. So a test sees what is read or overwritten too early.
//
// Fences between writes of threads and reads of these units do nothing here, and are not missed.
// A warpgroup's products are done when all its threads wait, where a GPU lets warps go on alone.
#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <cstring>
#include <limits>

#include "block.hpp"
#include "emulation.hpp"
#include "rounding.hpp"
#include "tensor_core_units.hpp"

namespace hetsgd_emulation {

namespace {

constexpr unsigned kGroupThreads = 128;             // of a warpgroup
constexpr unsigned kProductRows = 64, kDepth = 16;  // of D, and of the sum of one product
constexpr std::uint32_t kSharedBegin = 1024;        // the address of dynamic shared memory
constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

// --- barriers of transactions --------------------------------------------------------------------
// A barrier is a word in shared memory. The bits of a word that nobody has started are all 1.
struct Phase {
  std::uint32_t count, pending;  // threads per phase, and those that have not arrived
  std::int32_t bytes;            // announced and not yet come; below 0: they came before
  bool parity;
};
constexpr std::uint32_t kMostCount = (1U << 20) - 1;
constexpr std::int32_t kBytesZero = 1 << 20;

std::uint64_t packed(const Phase& phase) {
  return std::uint64_t{phase.count} | std::uint64_t{phase.pending} << 20 |
         static_cast<std::uint64_t>(phase.bytes + kBytesZero) << 40 |
         std::uint64_t{phase.parity} << 62;
}
Phase unpacked(std::uint64_t word) {
  if (word >> 63 != 0) misuse("a barrier that was not started, or that was written over");
  return {static_cast<std::uint32_t>(word & kMostCount),
          static_cast<std::uint32_t>(word >> 20 & kMostCount),
          static_cast<std::int32_t>(word >> 40 & ((1U << 22) - 1)) - kBytesZero,
          (word >> 62 & 1) != 0};
}

struct BarrierWaits {
  const std::uint64_t* barrier;
  std::vector<Fiber*> threads;
};

struct NamedBarrier {
  unsigned expected = 0;
  std::bitset<1024> arrived;
  std::vector<Fiber*> threads;
};

struct Copy {
  unsigned char* to;
  const unsigned char* from;
  unsigned bytes;
  std::uint64_t* barrier;
};

// --- products ------------------------------------------------------------------------------------
struct Accumulator {
  float* registers;           // what the thread sees, NaN until it has waited
  std::vector<float> values;  // what the tensor core has
};

struct ThreadProducts {
  bool open = false;  // between begin_products() and end_products()
  std::vector<Product> products;
  std::vector<std::size_t> group_ends;
  std::vector<Accumulator> accumulators;

  std::vector<float>& values_of(const float* D) {
    return std::find_if(accumulators.begin(), accumulators.end(),
                        [D](const Accumulator& a) { return a.registers == D; })
        ->values;
  }
};

enum class Meeting { none, end, await };

struct Warpgroup {
  std::array<ThreadProducts, kGroupThreads> threads;
  std::size_t executed = 0;  // of each thread's products
  unsigned arrived = 0;
  Meeting meeting = Meeting::none;
  unsigned pending = 0;
  std::vector<Fiber*> waiting;
};

float number_of(std::uint16_t bits, bool fp16) {
  std::uint32_t word = std::uint32_t{bits} << 16;
  float x = 0;
  if (fp16) {
    const std::uint32_t magnitude = bits & 0x7FFFU, sign = word & 0x80000000U;
    word = sign | magnitude << 13 | (magnitude >= 0x7C00U ? 0x7F800000U : 0U);
    std::memcpy(&x, &word, sizeof x);
    // The exponent's bias is 15 instead of 127; infinities and NaN stay.
    return magnitude >= 0x7C00U ? x : x * 0x1p112F;
  }
  std::memcpy(&x, &word, sizeof x);
  return x;
}

// A tile's number whose place, counted in the tile as if nothing was exchanged, is `place` bytes
// behind the address that the operand names.
float shared_number(std::uint32_t tile, std::uint32_t place, bool fp16) {
  const std::uint32_t plain = ((tile & 0x3FFFU) << 4) + place;
  const std::uint32_t address = plain ^ (plain >> 7 & 7U) << 4;
  const SharedMemory shared = shared_memory();
  if (address < kSharedBegin || address - kSharedBegin + 2 > shared.bytes) {
    misuse(fmt::format("a product reads at {} of {} bytes of shared memory",
                       static_cast<std::int64_t>(address) - kSharedBegin, shared.bytes));
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, shared.begin + (address - kSharedBegin), sizeof bits);
  return number_of(bits, fp16);
}

constexpr std::uint32_t kEightRows = 1024;  // bytes between groups of eight rows of a half

template <unsigned kColumns>
class Matrices {
 public:
  // Thread 32 w + 4 g + t has rows 16 w + g + 8 i at columns 8 j + 2 t + e at index 4 j + 2 i + e.
  void load(Warpgroup& group, std::size_t product) {
    each_accumulator(group, product, [](float& mine, float& its) { mine = its; });
  }
  void store(Warpgroup& group, std::size_t product) {
    each_accumulator(group, product, [](float& mine, float& its) { its = mine; });
  }
  void multiply(const Warpgroup& group, std::size_t product) {
    const Product& p = group.threads[0].products[product];
    read_A(group, product);
    for (unsigned k = 0; k < kDepth; ++k) {
      for (unsigned n = 0; n < kColumns; ++n) B_[k][n] = B_number(p, k, n);
    }
    for (auto& row : D_) {
      if (!p.add) row.fill(0);
    }
    for (unsigned m = 0; m < kProductRows; ++m) {
      for (unsigned k = 0; k < kDepth; ++k) {
        const float a = A_[m][k];
        for (unsigned n = 0; n < kColumns; ++n) D_[m][n] += a * B_[k][n];
      }
    }
  }

 private:
  template <class F>
  void each_accumulator(Warpgroup& group, std::size_t product, const F& f) {
    for (unsigned thread = 0; thread < kGroupThreads; ++thread) {
      ThreadProducts& its = group.threads[thread];
      std::vector<float>& values = its.values_of(its.products[product].D);
      const unsigned w = thread / 32, g = thread % 32 / 4, t = thread % 4;
      for (unsigned index = 0; index < kColumns / 2; ++index) {
        const unsigned row = 16 * w + g + 8 * (index / 2 % 2);
        f(D_[row][index / 4 * 8 + 2 * t + index % 2], values[index]);
      }
    }
  }
  void read_A(const Warpgroup& group, std::size_t product) {
    const Product& p = group.threads[0].products[product];
    if (p.A == nullptr) {
      for (unsigned m = 0; m < kProductRows; ++m) {
        for (unsigned k = 0; k < kDepth; ++k) A_[m][k] = by_columns(p.A_tile, p.fp16, m, k);
      }
      return;
    }
    for (unsigned thread = 0; thread < kGroupThreads; ++thread) {
      std::uint32_t words[4];
      std::memcpy(words, group.threads[thread].products[product].A, sizeof words);
      const unsigned w = thread / 32, g = thread % 32 / 4, t = thread % 4;
      for (unsigned i = 0; i < 8; ++i) {
        const auto bits = static_cast<std::uint16_t>(words[i / 2] >> i % 2 * 16);
        A_[16 * w + g + 8 * (i / 2 % 2)][i / 4 * 8 + 2 * t + i % 2] = number_of(bits, p.fp16);
      }
    }
  }
  // A row of the tile is a row of A or a column of B; the sum goes over 16 of its columns.
  static float by_columns(std::uint32_t tile, bool fp16, unsigned row, unsigned column) {
    return shared_number(tile, row / 8 * kEightRows + row % 8 * 128 + column * 2, fp16);
  }
  static float B_number(const Product& p, unsigned k, unsigned n) {
    if (!p.by_rows) return by_columns(p.B_tile, p.fp16, n, k);
    const std::uint32_t half_stride = p.B_tile >> 16 << 4;
    return shared_number(
        p.B_tile, n / 64 * half_stride + k / 8 * kEightRows + k % 8 * 128 + n % 64 * 2, p.fp16);
  }

  std::array<std::array<float, kColumns>, kProductRows> D_;
  std::array<std::array<float, kDepth>, kProductRows> A_;
  std::array<std::array<float, kColumns>, kDepth> B_;
};

// Products one after the other from `begin` on that have the same accumulator; returns their end.
template <unsigned kColumns>
std::size_t execute_chain(Warpgroup& group, std::size_t begin, std::size_t end) {
  static thread_local Matrices<kColumns> matrices;
  const std::vector<Product>& products = group.threads[0].products;
  matrices.load(group, begin);
  std::size_t at = begin;
  for (; at < end && products[at].D == products[begin].D; ++at) matrices.multiply(group, at);
  matrices.store(group, begin);
  return at;
}

void check_alike(const Warpgroup& group, std::size_t product) {
  const Product& p = group.threads[0].products[product];
  for (const ThreadProducts& thread : group.threads) {
    const Product& q = thread.products[product];
    if (p.fp16 != q.fp16 || p.by_rows != q.by_rows || p.columns != q.columns ||
        (p.A == nullptr) != (q.A == nullptr) || p.A_tile != q.A_tile || p.B_tile != q.B_tile ||
        p.add != q.add) {
      misuse("the threads of a warpgroup name different operands of a product");
    }
  }
}

void execute(Warpgroup& group, std::size_t end) {
  for (std::size_t i = group.executed; i < end; ++i) check_alike(group, i);
  while (group.executed < end) {
    const unsigned columns = group.threads[0].products[group.executed].columns;
    group.executed = columns == 64   ? execute_chain<64>(group, group.executed, end)
                     : columns == 96 ? execute_chain<96>(group, group.executed, end)
                                     : execute_chain<128>(group, group.executed, end);
  }
}

// Gives a thread the accumulators that no product after the first `count` adds to.
void hand_over(ThreadProducts& thread, std::size_t count) {
  const auto first = thread.products.begin() + static_cast<std::ptrdiff_t>(count);
  std::erase_if(thread.accumulators, [&](const Accumulator& a) {
    const bool over = std::none_of(first, thread.products.end(),
                                   [&](const Product& p) { return p.D == a.registers; });
    if (over) std::copy(a.values.begin(), a.values.end(), a.registers);
    return over;
  });
  thread.products.erase(thread.products.begin(), first);
}

class HopperUnits final : public Units {
 public:
  HopperUnits()
      : late_copies_(blocks_before() / 2 % 2 == 0),
        late_products_((blocks_before() ^ blocks_before() / 2) % 2 == 0),
        groups_((threads_of_block() + kGroupThreads - 1) / kGroupThreads) {}

  static HopperUnits& mine() {
    return static_cast<HopperUnits&>(
        units_of_block([]() -> std::unique_ptr<Units> { return std::make_unique<HopperUnits>(); }));
  }

  bool advance() override {
    if (!copies_.empty()) {
      const Copy copy = copies_.back();
      copies_.pop_back();
      land(copy);
    } else if (!awaited_.empty()) {
      Warpgroup& group = *awaited_.back();
      awaited_.pop_back();
      go_on(group);
    } else {
      return false;
    }
    return true;
  }
  void end_thread(unsigned thread) override {
    const ThreadProducts& its = groups_[thread / kGroupThreads].threads[thread % kGroupThreads];
    if (its.open || !its.products.empty()) misuse("a thread ended before its products were over");
  }
  void end_block() override {
    if (!copies_.empty()) misuse("a block ended before a copy to its shared memory was over");
    for (const NamedBarrier& barrier : named_) {
      if (barrier.arrived.any()) misuse("a block ended while threads had arrived at a barrier");
    }
  }

  void update_barrier(std::uint64_t* barrier, unsigned arrivals, std::int32_t bytes) {
    Phase phase = unpacked(*barrier);
    if (phase.pending < arrivals) misuse("more threads arrive at a barrier than it counts");
    phase.pending -= arrivals;
    phase.bytes += bytes;
    if (std::abs(phase.bytes) >= kBytesZero) misuse("a barrier counts up to 1 MiB");
    if (phase.pending == 0 && phase.bytes == 0) {
      phase.parity = !phase.parity;
      phase.pending = phase.count;
      for (BarrierWaits& waits : waits_) {
        if (waits.barrier == barrier) wake(waits.threads);
      }
    }
    *barrier = packed(phase);
  }
  void await(const std::uint64_t* barrier, unsigned parity) {
    if (unpacked(*barrier).parity != (parity != 0)) return;
    auto found = std::find_if(waits_.begin(), waits_.end(), [barrier](const BarrierWaits& waits) {
      return waits.barrier == barrier;
    });
    if (found == waits_.end()) found = waits_.insert(found, {barrier, {}});
    wait_in(found->threads);
  }
  void copy(const Copy& copy) {
    std::memset(copy.to, 0xFF, copy.bytes);
    if (late_copies_) {
      copies_.push_back(copy);
    } else {
      land(copy);
    }
  }

  void meet_at(unsigned number, unsigned threads, bool waits) {
    NamedBarrier& barrier = named_.at(number);
    if (barrier.arrived.none()) barrier.expected = threads;
    if (barrier.expected != threads) misuse("threads expect different numbers at a barrier");
    const unsigned thread = number_of_thread();
    if (barrier.arrived[thread]) misuse("a thread arrives twice before others meet it");
    barrier.arrived.set(thread);
    if (barrier.arrived.count() == threads) {
      barrier.arrived.reset();
      wake(barrier.threads);
    } else if (waits) {
      wait_in(barrier.threads);
    }
  }

  ThreadProducts& my_products() { return my_group().threads[number_of_thread() % kGroupThreads]; }
  void end_products() {
    ThreadProducts& me = my_products();
    if (!me.open) misuse("products end that did not begin");
    me.open = false;
    me.group_ends.push_back(me.products.size());
    if (!late_products_) meet(Meeting::end, 0);
  }
  void await_products(unsigned pending) {
    if (my_products().open) misuse("products are waited for that have not ended");
    meet(Meeting::await, pending);
  }

 private:
  Warpgroup& my_group() { return groups_[number_of_thread() / kGroupThreads]; }

  void land(const Copy& copy) {
    std::memcpy(copy.to, copy.from, copy.bytes);
    update_barrier(copy.barrier, 0, -static_cast<std::int32_t>(copy.bytes));
  }

  // The threads of a warpgroup meet, and go on when their products are as far as they say.
  void meet(Meeting meeting, unsigned pending) {
    Warpgroup& group = my_group();
    if (group.arrived == 0) {
      group.meeting = meeting;
      group.pending = pending;
    }
    if (group.meeting != meeting || group.pending != pending) {
      misuse("the threads of a warpgroup do different things with their products");
    }
    if (++group.arrived == kGroupThreads) {
      if (!late_products_) {
        go_on(group);
        return;
      }
      awaited_.push_back(&group);
    }
    wait_in(group.waiting);
  }
  void go_on(Warpgroup& group) {
    const auto& ends = group.threads[0].group_ends;
    for (const ThreadProducts& thread : group.threads) {
      if (thread.group_ends != ends) {
        misuse("the threads of a warpgroup have different numbers of products");
      }
    }
    const std::size_t over = ends.size() - std::min<std::size_t>(ends.size(), group.pending);
    if (group.meeting == Meeting::end) {
      execute(group, ends.back());
    } else if (over > 0) {
      const std::size_t count = ends[over - 1];
      execute(group, std::max(count, group.executed));
      for (ThreadProducts& thread : group.threads) {
        hand_over(thread, count);
        thread.group_ends.erase(thread.group_ends.begin(),
                                thread.group_ends.begin() + static_cast<std::ptrdiff_t>(over));
        for (std::size_t& end : thread.group_ends) end -= count;
      }
      group.executed -= count;
    }
    group.arrived = 0;
    wake(group.waiting);
  }

  const bool late_copies_, late_products_;
  std::vector<BarrierWaits> waits_;
  std::array<NamedBarrier, 16> named_;
  std::vector<Copy> copies_;  // under way
  std::vector<Warpgroup> groups_;
  std::vector<Warpgroup*> awaited_;  // whose threads wait for late products
};

void check_shared(const void* memory, std::size_t bytes, std::size_t alignment, const char* what) {
  const SharedMemory shared = shared_memory();
  const auto* const begin = static_cast<const unsigned char*>(memory);
  if (begin < shared.begin || bytes > shared.bytes ||
      begin > shared.begin + (shared.bytes - bytes)) {
    misuse(fmt::format("{} does not lie in dynamic shared memory", what));
  }
  if (static_cast<std::size_t>(begin - shared.begin) % alignment != 0) {
    misuse(fmt::format("{} does not begin at a multiple of {} bytes", what, alignment));
  }
}
void check_barrier(const std::uint64_t* barrier) { check_shared(barrier, 8, 8, "a barrier"); }

}  // namespace

std::uint32_t shared_address(const void* memory) {
  check_shared(memory, 0, 1, "an address");
  return kSharedBegin + static_cast<std::uint32_t>(static_cast<const unsigned char*>(memory) -
                                                   shared_memory().begin);
}

void start_barrier(std::uint64_t* barrier, unsigned count) {
  check_barrier(barrier);
  if (count == 0 || count > kMostCount) misuse("a barrier that counts no threads, or too many");
  *barrier = packed({count, count, 0, false});
}
void arrive(std::uint64_t* barrier, unsigned bytes) {
  check_barrier(barrier);
  HopperUnits::mine().update_barrier(barrier, 1, static_cast<std::int32_t>(bytes));
}
void await(std::uint64_t* barrier, unsigned parity) {
  check_barrier(barrier);
  HopperUnits::mine().await(barrier, parity);
}
void meet_at(unsigned number, unsigned threads, bool waits) {
  if (number >= 16 || threads % 32 != 0) misuse("a barrier of a block that there is not");
  HopperUnits::mine().meet_at(number, threads, waits);
}

void copy_to_shared(void* shared, const void* global, unsigned bytes, std::uint64_t* barrier) {
  check_barrier(barrier);
  check_shared(shared, bytes, 16, "a copy's destination");
  if (reinterpret_cast<std::uintptr_t>(global) % 16 != 0 || bytes % 16 != 0) {
    misuse("a copy that is not one of 16-byte units");
  }
  unpacked(*barrier);
  HopperUnits::mine().copy({static_cast<unsigned char*>(shared),
                            static_cast<const unsigned char*>(global), bytes, barrier});
}

std::uint32_t tile_operand(const void* tile, std::uint32_t half_stride) {
  check_shared(tile, 0, 1024, "a tile");
  if (half_stride % 1024 != 0 || half_stride >> 4 > 0xFFFFU) misuse("a tile of odd size");
  return shared_address(tile) >> 4 | half_stride >> 4 << 16;
}

void begin_products() {
  ThreadProducts& me = HopperUnits::mine().my_products();
  if (me.open) misuse("products begin before the last ones ended");
  me.open = true;
}
void add_product(const Product& product) {
  ThreadProducts& me = HopperUnits::mine().my_products();
  if (!me.open) misuse("a product before begin_products()");
  const bool under_way =
      std::any_of(me.accumulators.begin(), me.accumulators.end(),
                  [&](const Accumulator& a) { return a.registers == product.D; });
  if (!under_way) {
    float* const end = product.D + product.columns / 2;
    me.accumulators.push_back({product.D, std::vector<float>(product.D, end)});
    std::fill(product.D, end, kPoison);
  }
  me.products.push_back(product);
}
void end_products() { HopperUnits::mine().end_products(); }
void await_products(unsigned pending) { HopperUnits::mine().await_products(pending); }

// To the nearest number, ties to even; a NaN becomes the one without a sign, as GPUs make it.
std::uint16_t to_fp16(float x) {
  if (std::isnan(x)) return 0x7FFF;
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const float size = std::abs(x);
  if (size >= 65520.0F) return sign | 0x7C00;
  if (size < 0x1p-14F) return static_cast<std::uint16_t>(sign | std::lrint(size * 0x1p24F));
  const auto scaled = static_cast<float>(rounded(size, kFp16Bits)) * 0x1p-112F;
  std::uint32_t word = 0;
  std::memcpy(&word, &scaled, sizeof word);
  return static_cast<std::uint16_t>(sign | word >> 13);
}
std::uint16_t to_bf16(float x) {
  if (std::isnan(x)) return 0x7FFF;
  const auto near = static_cast<float>(rounded(x, kBf16Bits));
  std::uint32_t word = 0;
  std::memcpy(&word, &near, sizeof word);
  return static_cast<std::uint16_t>(word >> 16);
}

float from_fp16(std::uint16_t bits) { return number_of(bits, true); }

}  // namespace hetsgd_emulation
