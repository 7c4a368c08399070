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
  const std::size_t guard = page_bytes();
  void* memory = mmap(nullptr, bytes_ + guard, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, guard, PROT_NONE) != 0) {
    const int error = errno;
    if (memory != MAP_FAILED) munmap(memory, bytes_ + guard);
    throw with_hint(
        runtime_failure("no stack for simulated process {}: {}", mapped_ + 1, std::strerror(error)),
        "each takes two memory mappings: raise vm.max_map_count, or use fewer workers");
  }
  ++mapped_;
  // Room for one more in advance, so that give_back cannot fail.
  if (free_.capacity() < mapped_) free_.reserve(2 * mapped_);
  return {static_cast<std::byte*>(memory) + guard, bytes_};
}

void StackPool::give_back(Stack stack) noexcept {
#ifdef HETSGD_ASAN
  ASAN_UNPOISON_MEMORY_REGION(stack.bottom, stack.bytes);
#endif
  free_.push_back(stack.bottom);
}

// The switches themselves. Nothing is instrumented between an announcement and its jump.
struct Fiber::Switch {
  static void into(Fiber& fiber) {
    // Swapping exceptions' records costs one thread-local look-up; see the header for why.
    auto* globals = reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
    const ExceptionState owner_exceptions = *globals;
    *globals = fiber.exceptions_;
#ifdef HETSGD_ASAN
    __sanitizer_start_switch_fiber(&fiber.owner_fake_stack_, fiber.stack_.bottom,
                                   fiber.stack_.bytes);
#endif
#ifdef HETSGD_TSAN
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

  static void arrived(Fiber& fiber, void* owner) {
    fiber.owner_ = owner;
#ifdef HETSGD_ASAN
    __sanitizer_finish_switch_fiber(fiber.fiber_fake_stack_, &fiber.owner_stack_bottom_,
                                    &fiber.owner_stack_bytes_);
#endif
  }

  static void entry(context::transfer_t from) {
    auto& fiber = *static_cast<Fiber*>(from.data);
    arrived(fiber, from.fctx);
    fiber.enter();
    out(fiber, true);
  }
};

Fiber::Fiber(StackPool& stacks, std::function<void()> body)
    : stacks_(stacks), body_(std::move(body)) {}

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

void Fiber::enter() {
  try {
    body_();
  } catch (const FiberUnwind&) {
  } catch (...) {
    error_ = std::current_exception();
  }
  body_ = nullptr;
  state_ = State::ended;
}

bool Fiber::resume() {
  HETSGD_CHECK(state_ == State::fresh || state_ == State::suspended);
  if (state_ == State::fresh) start();
  state_ = State::running;
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

void Fiber::suspend() {
  if (!unwinding_) {
    state_ = State::suspended;
    Switch::out(*this, false);
  }
  if (!unwinding_) return;
  if (std::uncaught_exceptions() == 0) throw FiberUnwind{};
}

}  // namespace hetsgd::sim
