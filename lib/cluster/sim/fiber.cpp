#include "cluster/sim/fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstdint>
#include <cstring>

#include "core/error.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define HETSGD_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HETSGD_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define HETSGD_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HETSGD_TSAN 1
#endif
#endif

#ifdef HETSGD_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef HETSGD_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace hetsgd::sim {

namespace context = boost::context::detail;

namespace {

// Cache colouring, see Fiber::start: the number of different beginnings of stacks, and their
// distance in bytes. All of them together stay within one page, and each keeps the alignment to a
// cache line.
constexpr std::size_t kColors = 16;
constexpr std::size_t kColorBytes = 192;

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

StackPool::StackPool(std::size_t bytes)
    : bytes_((bytes + page_bytes() - 1) / page_bytes() * page_bytes()) {}

StackPool::~StackPool() {
  for (std::byte* bottom : free_) munmap(bottom - page_bytes(), bytes_ + page_bytes());
}

StackPool::Stack StackPool::take() {
  if (!free_.empty()) {
    std::byte* bottom = free_.back();
    free_.pop_back();
    return {bottom, bytes_};
  }
  // MAP_NORESERVE: ten thousand stacks are promised far more memory than they ever touch, which
  // shall not count against what the system is ready to promise. The stack grows downwards, so the
  // guard is the lowest page.
  const std::size_t guard = page_bytes();
  void* memory = mmap(nullptr, bytes_ + guard, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE) != 0) {
    // munmap may overwrite errno.
    const int error = errno;
    if (memory != MAP_FAILED) munmap(memory, bytes_ + guard);
    throw with_hint(
        runtime_failure("no stack for simulated process {}: {}", mapped_ + 1, std::strerror(error)),
        "a stack takes two memory mappings: raise vm.max_map_count, or use fewer workers");
  }
  ++mapped_;
  // The list gets room for one more in advance, so that give_back cannot fail.
  if (free_.capacity() < mapped_) free_.reserve(2 * mapped_);
  return {static_cast<std::byte*>(memory) + guard, bytes_};
}

void StackPool::give_back(Stack stack) noexcept {
  // Frames that were left without returning keep their red zones poisoned, and the next fiber on
  // this stack would be reported for touching them.
#ifdef HETSGD_ASAN
  ASAN_UNPOISON_MEMORY_REGION(stack.bottom, stack.bytes);
#endif
  free_.push_back(stack.bottom);
}

// The switches themselves. Nothing is instrumented between an announcement and its jump.
//
//   owner's stack                         fiber's stack
//   into(): swap exception records
//           announce, jump_fcontext --->  entry() the first time, else the end of out():
//                                         arrived() notes where the owner stands
//                                         ... runs ...
//           jump_fcontext returns   <---  out(): announce, jump_fcontext
//           swap the records back
//
// jump_fcontext saves the registers on the stack that it leaves and returns, on the other side, the
// context of the side that jumped. Either context is valid for one jump only, which is why both are
// noted anew on every switch.
struct Fiber::Switch {
  static void into(Fiber& fiber) {
    // Swapping exceptions' records costs one thread-local look-up; see the header for why. The
    // owner's record waits in this frame. It need not be empty: an unwinding starts in the owner's
    // catch block.
    auto* globals = reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
    const ExceptionState owner_exceptions = *globals;
    *globals = fiber.exceptions_;
#ifdef HETSGD_ASAN
    // This tells where the stack pointer is about to be, and puts the owner's fake stack (where
    // AddressSanitizer keeps locals to detect their use after return) aside.
    __sanitizer_start_switch_fiber(&fiber.owner_fake_stack_, fiber.stack_.bottom,
                                   fiber.stack_.bytes);
#endif
#ifdef HETSGD_TSAN
    // Flags 0: the switch also orders memory, so what the owner wrote before it is no race.
    fiber.owner_handle_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber.fiber_handle_, 0);
#endif
    fiber.context_ = context::jump_fcontext(fiber.context_, &fiber).fctx;
#ifdef HETSGD_ASAN
    __sanitizer_finish_switch_fiber(fiber.owner_fake_stack_, nullptr, nullptr);
#endif
    fiber.exceptions_ = *globals;
    *globals = owner_exceptions;
  }

  // `last`: the fiber has ended, its fake stack may be freed.
  static void out(Fiber& fiber, bool last) {
#ifdef HETSGD_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &fiber.fiber_fake_stack_,
                                   fiber.owner_stack_bottom_, fiber.owner_stack_bytes_);
#endif
#ifdef HETSGD_TSAN
    __tsan_switch_to_fiber(fiber.owner_handle_, 0);
#endif
    static_cast<void>(last);
    arrived(fiber, context::jump_fcontext(fiber.owner_, nullptr).fctx);
  }

  // Called on the fiber's stack, first after every switch to it.
  static void arrived(Fiber& fiber, void* owner) {
    fiber.owner_ = owner;
#ifdef HETSGD_ASAN
    __sanitizer_finish_switch_fiber(fiber.fiber_fake_stack_, &fiber.owner_stack_bottom_,
                                    &fiber.owner_stack_bytes_);
#endif
  }

  // The first function on a fresh stack. It must never return, as there is no frame below it: the
  // jump of out(last) is the end, and the stack is given back by the owner.
  static void entry(context::transfer_t from) {
    auto& fiber = *static_cast<Fiber*>(from.data);
    arrived(fiber, from.fctx);
    fiber.enter();
    out(fiber, true);
  }
};

Fiber::Fiber(StackPool& stacks, std::function<void()> body)
    : stacks_(stacks), body_(std::move(body)) {}

// A suspended fiber is unwound first: its frames hold objects whose destructors must run.
Fiber::~Fiber() {
  unwind();
  if (stack_.bottom != nullptr) stacks_.give_back(stack_);
}

void Fiber::start() {
  stack_ = stacks_.take();
#ifdef HETSGD_TSAN
  fiber_handle_ = __tsan_create_fiber(0);
#endif
  // Stacks begin at different places in their page: otherwise the hot ends of a thousand fibers
  // would compete for the same few sets of the caches.
  const std::size_t page = reinterpret_cast<std::uintptr_t>(stack_.bottom) / page_bytes();
  const std::size_t shift = page % kColors * kColorBytes;
  context_ = context::make_fcontext(stack_.bottom + stack_.bytes - shift, stack_.bytes - shift,
                                    &Switch::entry);
}

// No exception may pass entry(), below which there is nothing to unwind to; so each is caught here,
// on the fiber's stack, and rethrown on the owner's.
void Fiber::enter() {
  try {
    body_();
  } catch (const FiberUnwind&) {
  } catch (...) {
    error_ = std::current_exception();
  }
  // The body goes here and not in the destructor: what it has captured (a background task's
  // endpoint) ends with the fiber, and its destructors may still call the vocabulary.
  body_ = nullptr;
  state_ = State::ended;
}

// When no stack can be had start() throws; the fiber is then still fresh.
bool Fiber::resume() {
  HETSGD_CHECK(state_ == State::fresh || state_ == State::suspended);
  if (state_ == State::fresh) start();
  state_ = State::running;  // suspend() and enter() say how it came back
  Switch::into(*this);
  if (state_ != State::ended) return true;
#ifdef HETSGD_TSAN
  __tsan_destroy_fiber(fiber_handle_);
#endif
  stacks_.give_back(std::exchange(stack_, {}));
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return false;
}

void Fiber::unwind() noexcept {
  if (state_ == State::fresh) {
    body_ = nullptr;
    state_ = State::ended;
  }
  if (state_ != State::suspended) return;
  unwinding_ = true;
  try {
    resume();  // ends it: suspend() never leaves a fiber that is being unwound
  } catch (...) {
  }
}

// Whether to throw depends on uncaught_exceptions() of this fiber's own record: it counts what is
// on its way through these frames, FiberUnwind itself included, and not what goes on in the owner.
// Where it is not 0 a destructor has called: it gets an answer at once, whatever it waits for.
void Fiber::suspend() {
  if (!unwinding_) {
    state_ = State::suspended;
    Switch::out(*this, false);
  }
  if (!unwinding_) return;
  if (std::uncaught_exceptions() == 0) throw FiberUnwind{};
}

}  // namespace hetsgd::sim
