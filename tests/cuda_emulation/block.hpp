// The services of an emulated block of threads (kernel.cpp) for units that work beside its threads,
// such as those of tensor_core.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace hetsgd_emulation {

struct Fiber;  // carries an emulated thread

class Units {
 public:
  virtual ~Units() = default;
  // Called when all threads of the block wait: does a piece of work that one of them may wait for.
  // false: there is none.
  virtual bool advance() = 0;
  // Ends the program if something is under way that a thread, or the block, had to wait for.
  virtual void end_thread(unsigned thread) = 0;
  virtual void end_block() = 0;
};

// The rest is about the block and the thread that run.

// The block's units, which `make` makes at the first call.
Units& units_of_block(std::unique_ptr<Units> (*make)());
unsigned number_of_thread();
unsigned threads_of_block();
// The number of blocks of the launch that ran before this one: orders that are nobody's promise
// depend on it.
std::uint64_t blocks_before();
// Dynamic shared memory begins at a multiple of 1,024 bytes.
struct SharedMemory {
  unsigned char* begin;
  std::size_t bytes;
};
SharedMemory shared_memory();
// The thread waits until another one, or a unit, wakes the list.
void wait_in(std::vector<Fiber*>& list);
void wake(std::vector<Fiber*>& list);

}  // namespace hetsgd_emulation
