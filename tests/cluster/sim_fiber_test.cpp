#include <stdexcept>
#include <utility>

#include "cluster/sim/fiber.hpp"
#include "core/error.hpp"

namespace hetsgd::sim {
namespace {

// A fiber whose body knows it.
struct Alone {
  explicit Alone(std::function<void(Fiber&)> body)
      : fiber(stacks, [this, body = std::move(body)] { body(fiber); }) {}
  StackPool stacks;
  Fiber fiber;
};

TEST(Fiber, ResumingAnEndedFiberIsACheckFailure) {
  StackPool stacks;
  Fiber fiber(stacks, [] {});
  EXPECT_FALSE(fiber.resume());
  EXPECT_THROW(fiber.resume(), CheckFailure);
}

int stack_depth(int levels) {
  volatile char frame[1024];
  std::fill(std::begin(frame), std::end(frame), static_cast<char>(levels));
  return levels == 0 ? frame[1023] : stack_depth(levels - 1) + (frame[0] != frame[1023]);
}

TEST(Fiber, HasRoomForDeepCalls) {
  StackPool stacks;
  int result = -1;
  Fiber fiber(stacks,
              [&] { result = stack_depth(64); });  // 64 KiB of frames, more under sanitizers
  fiber.resume();
  EXPECT_EQ(result, 0);
}

// Two fibers are each in the middle of handling an exception when they switch: each must find its
// own.
TEST(Fiber, ExceptionsInFlightBelongToTheirFiber) {
  StackPool stacks;
  std::vector<std::string> rethrown;
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (int i = 0; i < 2; ++i) {
    fibers.push_back(std::make_unique<Fiber>(stacks, [&fibers, &rethrown, i] {
      try {
        throw std::runtime_error("of fiber " + std::to_string(i));
      } catch (const std::exception&) {
        fibers[static_cast<std::size_t>(i)]->suspend();
        try {
          throw;  // the one that is being handled here
        } catch (const std::exception& error) {
          rethrown.push_back(error.what());
        }
      }
    }));
  }
  try {
    throw std::runtime_error("of the owner");
  } catch (const std::exception&) {
    for (auto& fiber : fibers) EXPECT_TRUE(fiber->resume());
    for (auto& fiber : fibers) EXPECT_FALSE(fiber->resume());
    try {
      throw;
    } catch (const std::exception& error) {
      EXPECT_STREQ(error.what(), "of the owner");
    }
  }
  EXPECT_EQ(rethrown, (std::vector<std::string>{"of fiber 0", "of fiber 1"}));
}

struct Flag {
  bool& flag;
  ~Flag() { flag = true; }
};

TEST(Fiber, UnwindingAFreshFiberNeverStartsIt) {
  StackPool stacks;
  bool started = false;
  bool captured_destroyed = false;
  auto captured = std::make_shared<Flag>(captured_destroyed);
  Fiber fiber(stacks, [&started, captured] { started = true; });
  captured.reset();
  fiber.unwind();
  EXPECT_FALSE(started);
  EXPECT_TRUE(captured_destroyed);
  EXPECT_TRUE(fiber.ended());
}

TEST(Fiber, UnwindPassesHandlersOfStandardExceptionsAndDropsOthers) {
  bool handled = false;
  Alone alone([&](Fiber& self) {
    try {
      self.suspend();
    } catch (const std::exception&) {
      handled = true;
    } catch (const FiberUnwind&) {
      throw std::runtime_error("on the way out");
    }
  });
  Fiber& fiber = alone.fiber;
  fiber.resume();
  fiber.unwind();
  EXPECT_FALSE(handled);
  EXPECT_TRUE(fiber.ended());
}

TEST(Fiber, CodeThatSwallowsTheUnwindIsUnwoundAtItsNextSuspend) {
  int swallowed = 0;
  Alone alone([&](Fiber& self) {
    try {
      self.suspend();
    } catch (...) {
      ++swallowed;
    }
    self.suspend();
    swallowed = 100;
  });
  Fiber& fiber = alone.fiber;
  fiber.resume();
  fiber.unwind();
  EXPECT_EQ(swallowed, 1);
}

TEST(Fiber, FibersResumeFibers) {
  StackPool stacks;
  std::string trace;
  Fiber* inner_self = nullptr;
  Fiber inner(stacks, [&] {
    trace += "1";
    inner_self->suspend();
    trace += "3";
    throw std::runtime_error("inner");
  });
  inner_self = &inner;
  Fiber outer(stacks, [&] {
    inner.resume();
    trace += "2";
    EXPECT_THROW(inner.resume(), std::runtime_error);
    trace += "4";
  });
  outer.resume();
  EXPECT_EQ(trace, "1234");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(StackPoolDeathTest, BelowTheStackLiesAGuard) {
  StackPool stacks;
  const auto stack = stacks.take();
  stack.bottom[0] = std::byte{1};
  EXPECT_DEATH(*const_cast<volatile std::byte*>(stack.bottom - 1) = std::byte{1}, "");
  stacks.give_back(stack);
}
#endif

}  // namespace
}  // namespace hetsgd::sim
