#include "cluster/sim/engine.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/error.hpp"

namespace hetsgd::sim {

namespace {

// An event's order: arrival (1 bit), rank (20 bits), sequence (43 bits).
constexpr int kSequenceBits = 43;
constexpr int kRankBits = 20;
constexpr std::uint64_t kArrival = std::uint64_t{1} << (kSequenceBits + kRankBits);

}  // namespace

std::string Process::name() const {
  return companion.empty() ? worker_name(rank) : companion_name(companion, rank);
}

Engine::Engine(int host_threads, std::function<void(Process&)> ended)
    : pool_(host_threads), ended_(std::move(ended)) {}

Engine::~Engine() { tear_down(); }

void Engine::push(double time, std::uint64_t order, Handler handler, void* object) {
  HETSGD_CHECK_GE(time, now_);  // fails for NaN, too
  HETSGD_CHECK(std::isfinite(time));
  queue_.push(time, order | sequence_++, handler, object);
}

void Engine::at(double time, Handler handler, void* object) { push(time, 0, handler, object); }

void Engine::at_arrival(double time, int rank, Handler handler, void* object) {
  push(time, kArrival | static_cast<std::uint64_t>(rank) << kSequenceBits, handler, object);
}

Process& Engine::spawn(int rank, std::string companion, Ledger* ledger,
                       std::function<void()> body) {
  HETSGD_CHECK_LT(rank, 1 << kRankBits);
  auto process = std::make_unique<Process>(stacks_, rank, std::move(companion), std::move(body));
  process->ledger = ledger;
  process->index = processes_.size();
  process->since = now_;
  processes_.push_back(std::move(process));
  wake(*processes_.back());
  return *processes_.back();
}

void Engine::refuse(std::string_view call) {
  throw CheckFailure(
      fmt::format("{} was called where nothing may block: in a service's handler, in a fence, or "
                  "outside of the run",
                  call));
}

void Engine::count_idle_call(std::string_view call) {
  constexpr int kLimit = 1'000'000;
  if (++idle_calls_ < kLimit) return;
  throw CheckFailure(fmt::format(
      "{} calls {} for the {}th time in vain without letting time pass: receive, or sleep",
      current(call).name(), call, kLimit));
}

void Engine::wake_at(double time, Process& process) { at(time, nullptr, &process); }

void Engine::resume(Process& process) {
  for (;;) {
    current_ = &process;
    bool alive = false;
    try {
      alive = process.fiber.resume();
    } catch (...) {
      current_ = nullptr;
      throw;
    }
    current_ = nullptr;
    if (!alive) return end(process);
    if (off_the_clock_ == nullptr) return;
    try {
      pool_.finish_all();
      (*off_the_clock_)();
    } catch (...) {
      off_the_clock_error_ = std::current_exception();
    }
    off_the_clock_ = nullptr;
  }
}

void Engine::off_the_clock(FunctionRef fn) {
  current("fence");
  off_the_clock_ = &fn;
  block([] { return "in a fence"; });
  if (off_the_clock_error_) std::rethrow_exception(std::exchange(off_the_clock_error_, nullptr));
}

void Engine::end(Process& process) {
  ended_(process);
  const std::size_t index = process.index;
  std::swap(processes_[index], processes_.back());
  processes_[index]->index = index;
  processes_.pop_back();
}

void Engine::loop() {
  while (!processes_.empty()) {
    if (aborted_.load(std::memory_order_relaxed)) [[unlikely]] {
      const std::lock_guard lock(abort_mutex_);
      std::rethrow_exception(abort_error_);
    }
    if (queue_.empty()) throw deadlock();
    const Event event = queue_.pop();
    now_ = event.seconds();
    ++events_;
    // While this event is handled the next one's stack comes in: half of the time with 1,000
    // fibers.
    if (!queue_.empty() && queue_.top().handler == nullptr) {
      static_cast<const Process*>(queue_.top().object)->fiber.prefetch();
    }
    if (event.handler == nullptr) {
      resume(*static_cast<Process*>(event.object));
    } else {
      event.handler(event.object);
    }
  }
}

void Engine::run() {
  try {
    loop();
  } catch (...) {
    tear_down();
    throw;
  }
}

void Engine::abort(std::exception_ptr error) {
  const std::lock_guard lock(abort_mutex_);
  if (!abort_error_) abort_error_ = std::move(error);
  aborted_.store(true, std::memory_order_relaxed);
}

void Engine::tear_down() noexcept {
  tearing_down_ = true;
  pool_.cancel_all();  // first: tasks use what the fibers own
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    current_ = processes_[i].get();
    current_->fiber.unwind();
  }
  current_ = nullptr;
  processes_.clear();
}

Error Engine::deadlock() const {
  std::vector<const Process*> blocked;
  for (const auto& process : processes_) blocked.push_back(process.get());
  std::sort(blocked.begin(), blocked.end(), [](const Process* a, const Process* b) {
    return std::tie(a->rank, a->companion) < std::tie(b->rank, b->companion);
  });
  std::vector<BlockedProcess> report;
  for (const Process* process : blocked) {
    report.push_back(
        {process->name(), process->describe(process->reason), Seconds(process->since)});
  }
  return deadlock_error(report);
}

}  // namespace hetsgd::sim
