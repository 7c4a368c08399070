// Fiber: a piece of blocking code with a stack of its own, which its owner resumes and which
// suspends itself. Built on Boost.Context's context switch (about 5 ns).
//
// Sanitizers  : every switch is announced to AddressSanitizer and ThreadSanitizer when built with
//               them, so that both see fibers as what they are.
// Exceptions  : one that leaves the body is rethrown by resume(). Each fiber has its own record of
//               the exceptions in flight: a fiber may suspend inside a catch block or a destructor.
// Teardown    : unwind() throws FiberUnwind inside a suspended fiber, so that its destructors run.
//               It is no std::exception; code that catches everything must rethrow it.
// Thread      : a fiber is resumed by one thread, always the same one.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <vector>

namespace hetsgd::sim {

// Stacks of one size, reused; each a mapping of its own below which lies an inaccessible guard
// page: an overflow is a crash and not a silent overwrite. Memory is touched lazily: a stack costs
// what its fiber uses (two pages at least). Linux allows 65,530 mappings by default, so 32,000.
class StackPool {
 public:
  static constexpr std::size_t kDefaultBytes = std::size_t{256} << 10;

  explicit StackPool(std::size_t bytes = kDefaultBytes);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  struct Stack {
    std::byte* bottom = nullptr;  // lowest usable address
    std::size_t bytes = 0;
  };
  // Errors: runtime, when the system gives no more memory or mappings.
  Stack take();
  void give_back(Stack stack) noexcept;

 private:
  std::size_t bytes_;  // usable, whole pages
  std::size_t mapped_ = 0;
  std::vector<std::byte*> free_;
};

// Thrown inside a fiber by unwind().
struct FiberUnwind {};

class Fiber {
 public:
  // Does not start yet. `stacks` outlives the fiber.
  Fiber(StackPool& stacks, std::function<void()> body);
  ~Fiber();  // unwinds if suspended
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Owner: runs the fiber until it suspends (true) or ends (false). Rethrows what leaves the body;
  // the fiber has ended then.
  bool resume();
  // Owner: ends a suspended fiber by FiberUnwind; one that has not started never will. Other
  // exceptions that leave the body on the way are dropped.
  void unwind() noexcept;

  // Inside the fiber: back to the owner. Throws FiberUnwind when the fiber is being unwound; but
  // in a destructor that runs on the way out it returns at once, as a second exception would end
  // the program.
  void suspend();

  // Owner: this suspended fiber is resumed soon. Brings the end of its stack into the cache.
  void prefetch() const {
    constexpr std::ptrdiff_t kLines = 8;
    const auto* stack = static_cast<const std::byte*>(context_);
    for (std::ptrdiff_t line = 0; line < kLines; ++line) __builtin_prefetch(stack + 64 * line);
  }

  bool ended() const { return state_ == State::ended; }

 private:
  enum class State { fresh, running, suspended, ended };
  // The Itanium C++ ABI's __cxa_eh_globals: caught exceptions and the number in flight.
  struct ExceptionState {
    void* caught = nullptr;
    unsigned in_flight = 0;
  };

  struct Switch;  // the entry point of a context, and the announcements to the sanitizers
  void enter();
  void start();

  // What every switch touches stands first, together.
  void* context_ = nullptr;  // of the fiber while suspended
  void* owner_ = nullptr;    // of the owner while the fiber runs
  ExceptionState exceptions_;
  State state_ = State::fresh;
  bool unwinding_ = false;

  StackPool& stacks_;
  StackPool::Stack stack_;
  std::function<void()> body_;
  std::exception_ptr error_;
  // AddressSanitizer: the two sides' fake stacks and the owner's stack bounds; ThreadSanitizer:
  // handles.
  void* fiber_fake_stack_ = nullptr;
  void* owner_fake_stack_ = nullptr;
  const void* owner_stack_bottom_ = nullptr;
  std::size_t owner_stack_bytes_ = 0;
  void* fiber_handle_ = nullptr;
  void* owner_handle_ = nullptr;
};

}  // namespace hetsgd::sim
