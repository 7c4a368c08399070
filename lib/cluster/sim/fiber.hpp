// Fiber: a piece of blocking code with a stack of its own, which its owner resumes and which
// suspends itself. Built on Boost.Context's context switch.
//
//            resume()                 suspend()
//   fresh ------------> running ------------------> suspended
//     |                  |   ^                          |
//     | unwind():        |   +--------------------------+
//     | the body         |     resume(), or unwind(): then suspend() throws FiberUnwind
//     | never runs       | the body has returned, or an exception has left it
//     +-------> ended <--+
//
// Sanitizers  : every switch is announced to AddressSanitizer and ThreadSanitizer when built with
//               them, so that both see fibers as what they are.
// Exceptions  : one that leaves the body is rethrown by resume(). Each fiber has its own record of
//               the exceptions in flight: a fiber may suspend inside a catch block or a destructor.
// Teardown    : unwind() throws FiberUnwind inside a suspended fiber, so that its destructors run.
//               It is no std::exception; code that catches everything must rethrow it.
// Thread      : a fiber is resumed by one thread, always the same one.
// Memory      : the stack is taken at the first resume() and given back when the fiber ends: those
//               that have not started, and those that have ended, hold none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "core/non_copyable.hpp"

namespace hetsgd::sim {

// Stacks of one size, reused; each is a mapping of its own whose lowest page is an inaccessible
// guard: an overflow is a crash and not a silent overwrite. Memory is touched lazily: a stack costs
// what its fiber uses (two pages at least). The guard splits a mapping in two, and Linux allows
// 65,530 by default (vm.max_map_count), so there can be some 32,000 stacks. Not thread-safe.
class StackPool : NonCopyable {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{256} << 10;

  explicit StackPool(std::size_t bytes = kDefaultBytes);
  ~StackPool();

  struct Stack {
    std::byte* bottom = nullptr;  // lowest usable address
    std::size_t bytes = 0;
  };
  // The stack that was given back last, because its pages are the warmest; else a new mapping.
  // Throws Error(runtime) when the system gives no more memory or mappings.
  Stack take();
  // Never fails: take() has made room in the list. It is called while exceptions pass through.
  void give_back(Stack stack) noexcept;

 private:
  std::size_t bytes_;       // usable, whole pages
  std::size_t mapped_ = 0;  // stacks that exist, in use or free
  // Bottoms of the free stacks. Only these are unmapped by the destructor: all fibers are gone by
  // then.
  std::vector<std::byte*> free_;
};

// Thrown inside a fiber by suspend() when its owner unwinds it. An empty type of its own, so that
// no handler of the algorithm's own errors matches it by chance.
struct FiberUnwind {};

class Fiber : NonCopyable {
 public:
  // Does not start yet. `stacks` outlives the fiber.
  Fiber(StackPool& stacks, std::function<void()> body);
  ~Fiber();  // unwinds if suspended

  // Owner: runs the fiber until it suspends (true) or ends (false). Rethrows what leaves the body;
  // the fiber has ended then.
  bool resume();
  // Owner: ends a suspended fiber by FiberUnwind; one that has not started never will. Other
  // exceptions that leave the body on the way are dropped.
  void unwind() noexcept;

  // Called inside the fiber: goes back to the owner. Throws FiberUnwind when the fiber is being
  // unwound; but in a destructor that runs on the way out it returns at once, as a second exception
  // would end the program.
  void suspend();

  // Owner: this suspended fiber is resumed soon. Brings the end of its stack into the cache: the
  // registers that the switch restores, and the frames of the calls that it returns through. The
  // context of a suspended fiber is its stack pointer. A hint only: harmless for a fresh fiber,
  // whose context is null, as a prefetch never faults.
  void prefetch() const {
    constexpr std::uintptr_t kLines = 8;
    const auto stack = reinterpret_cast<std::uintptr_t>(context_);  // a null has no offsets
    for (std::uintptr_t line = 0; line < kLines; ++line) {
      __builtin_prefetch(reinterpret_cast<const void*>(stack + 64 * line));
    }
  }

  bool ended() const { return state_ == State::ended; }

 private:
  enum class State { fresh, running, suspended, ended };
  // The Itanium C++ ABI's __cxa_eh_globals: caught exceptions and the number in flight. The runtime
  // keeps one record per thread. Without a record per fiber, a fiber that suspends in a catch block
  // would leave its exception on top of those of the next fiber. A `throw;` there would rethrow it.
  struct ExceptionState {
    void* caught = nullptr;
    unsigned in_flight = 0;
  };

  struct Switch;  // the entry point of a context, and the announcements to the sanitizers
  void enter();   // runs the body, on the fiber's stack
  void start();   // gives it a stack and a context

  // The fields that every switch touches stand first, together, so that they share a cache line
  // with the fields before the fiber in Process (engine.hpp).
  void* context_ = nullptr;  // context of the fiber while it is suspended
  void* owner_ = nullptr;    // context of the owner while the fiber runs
  ExceptionState exceptions_;
  State state_ = State::fresh;
  bool unwinding_ = false;  // never reset: an unwound fiber only ever goes on to its end

  StackPool& stacks_;
  StackPool::Stack stack_;
  std::function<void()> body_;
  std::exception_ptr error_;  // left the body; handed over to resume()
  // AddressSanitizer: the two sides' fake stacks and the owner's stack bounds; ThreadSanitizer:
  // handles. They exist in every build, so that the layout does not depend on it.
  [[maybe_unused]] void* fiber_fake_stack_ = nullptr;
  [[maybe_unused]] void* owner_fake_stack_ = nullptr;
  [[maybe_unused]] const void* owner_stack_bottom_ = nullptr;
  [[maybe_unused]] std::size_t owner_stack_bytes_ = 0;
  [[maybe_unused]] void* fiber_handle_ = nullptr;
  [[maybe_unused]] void* owner_handle_ = nullptr;
};

}  // namespace hetsgd::sim
