#include "linalg/cores/cores.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <vector>

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/rank_index.hpp"

namespace hetsgd::cpu {

namespace {

// Threads of all live devices with several cores, and the cores of this machine that are online.
std::atomic<long> threads_of_devices{0};
const long cores_of_machine = ::sysconf(_SC_NPROCESSORS_ONLN);

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// Tells the core that this loop only waits.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

std::uint32_t SpinningWait::operator()(const std::atomic<std::uint32_t>& value, std::uint32_t old,
                                       bool spin) {
  constexpr int kLooks = 16;  // between two looks at the clock
  if (spin) {
    const std::int64_t end = now_ns() + budget_ns_;
    do {
      for (int look = 0; look < kLooks; ++look) {
        const std::uint32_t found = value.load(std::memory_order_acquire);
        if (found != old) {
          budget_ns_ = std::min(kLongestNs, 2 * budget_ns_);
          return found;
        }
        relax();
      }
    } while (now_ns() < end);
    budget_ns_ = std::max(kShortestNs, budget_ns_ / 2);
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

Cores::Cores(int count)
    : count_(static_cast<std::size_t>(count)),
      enough_cores_(count > 1 && at(count) <= available_cores().size()) {
  const auto helpers = static_cast<std::size_t>(count) - 1;
  if (helpers > 0) threads_of_devices += count;
  helpers_.reserve(helpers);
  try {
    for (std::size_t part = 1; part <= helpers; ++part) {
      helpers_.emplace_back([this, part] { help(part, 0); });
    }
  } catch (const std::system_error& error) {
    const std::size_t started = helpers_.size();
    start({});
    for (std::thread& helper : helpers_) helper.join();
    threads_of_devices -= count;
    throw with_hint(device_error("cpu:{}: the system started {} threads and refused the next: {}",
                                 count, started + 1, error.what()),
                    "ask for fewer cores or raise the limit of processes (ulimit -u)");
  }
}

Cores::Cores(const Cores& whole, std::size_t count)
    : count_(count), enough_cores_(count > 1 && whole.enough_cores_) {
  HETSGD_CHECK_LE(count, whole.count());
}

Cores::~Cores() {
  start({});
  for (std::thread& helper : helpers_) helper.join();
  if (!helpers_.empty()) threads_of_devices -= static_cast<long>(count());
}

bool Cores::may_spin() const { return enough_cores_ && threads_of_devices <= cores_of_machine; }

void Cores::start(const Job& job) const {
  job_ = job;
  busy_.store(static_cast<std::uint32_t>(count_ - 1), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
}

void Cores::finish() const {
  const bool spin = may_spin();
  for (std::uint32_t busy = busy_.load(std::memory_order_acquire); busy != 0;) {
    busy = wait_for_helpers_(busy_, busy, spin);
  }
}

void Cores::help(std::size_t part, std::uint32_t generation) const {
  for (SpinningWait wait_for_job;; ++generation) {
    wait_for_job(generation_, generation, may_spin());
    const Job job = job_;
    if (job.call == nullptr) return;
    if (part < job.parts) {
      const OnBehalfOf shown(job.racing);
      job.call(job.context, part);
    }
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace hetsgd::cpu
