#include "cluster/sim/engine.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/error.hpp"

namespace hetsgd::sim {

namespace {

// An event's order: arrival (1 bit), rank (20 bits), sequence (43 bits).
//
//   63        62 .. 43          42 .. 0
//   arrival   rank (arrivals)   sequence
//
// One whole number orders arrivals after everything else of that time, then by rank, then first
// come first served. The sequence makes it unique, so the heap's order is total and the same
// everywhere.
constexpr int kSequenceBits = 43;
constexpr int kRankBits = 20;
constexpr std::uint64_t kArrival = std::uint64_t{1} << (kSequenceBits + kRankBits);

}  // namespace

std::string Process::name() const {
  return background_task.empty() ? worker_name(rank) : background_task_name(background_task, rank);
}

Engine::Engine(int host_threads, Hooks hooks) : pool_(host_threads), hooks_(std::move(hooks)) {}

Engine::~Engine() { tear_down(); }

void Engine::push(double time, std::uint64_t order, Handler handler, void* object) {
  // Time may not run backwards, and at infinity it would end: `now + x` could not tell events
  // apart.
  HETSGD_CHECK_GE(time, now_);  // fails for NaN, too
  HETSGD_CHECK(std::isfinite(time));
  queue_.push(time, order | sequence_++, handler, object);
}

void Engine::set_clock(double time) {
  HETSGD_CHECK(queue_.empty());
  now_ = time;
}

void Engine::at(double time, Handler handler, void* object) { push(time, 0, handler, object); }

void Engine::at_arrival(double time, int rank, Handler handler, void* object) {
  push(time, kArrival | static_cast<std::uint64_t>(rank) << kSequenceBits, handler, object);
}

Process& Engine::spawn(int rank, std::string background_task, TimeBreakdown* breakdown,
                       WorkerAccount* account, std::function<void()> body) {
  HETSGD_CHECK_LT(rank, 1 << kRankBits);
  auto process =
      std::make_unique<Process>(stacks_, rank, std::move(background_task), std::move(body));
  process->breakdown = breakdown;
  process->account = account;
  process->index = processes_.size();
  process->since = now_;
  // Processes are held by pointer: events and the waiting lists of mailboxes and monitors refer to
  // the process.
  processes_.push_back(std::move(process));
  wake(*processes_.back());
  return *processes_.back();
}

void Engine::refuse(std::string_view call) {
  throw CheckFailure(fmt::format(
      "{} was called where nothing may block: {}", call,
      InComputation::now() ? "in a computation"
                           : "in a service's handler, in a pause, or outside of the run"));
}

void Engine::count_idle_call(std::string_view call) {
  constexpr int kLimit = 1'000'000;
  if (++idle_calls_ < kLimit) return;
  throw CheckFailure(fmt::format(
      "{} calls {} for the {}th time in vain without letting time pass: receive, or sleep",
      current(call).name(), call, kLimit));
}

// A null handler is the commonest event, and the loop resumes without a call through a pointer.
void Engine::wake_at(double time, Process& process) { at(time, nullptr, &process); }

// The loop is for pauses: a process that wants one suspends with off_the_clock_ set. Its function
// runs here, on the stack of the thread, and the process goes on at once, within the same event.
void Engine::resume(Process& process) {
  if (process.lost) return;
  for (;;) {
    current_ = &process;
    bool alive = false;
    try {
      alive = process.fiber.resume();
    } catch (...) {
      // The exception left the process's body. It ends the run: run() tears down.
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

// `fn` lies in the frame of the process, which stands still until resume() has called it.
void Engine::off_the_clock(FunctionRef fn) {
  current("while_paused");
  off_the_clock_ = &fn;
  block([] { return "in a pause"; });
  if (off_the_clock_error_) std::rethrow_exception(std::exchange(off_the_clock_error_, nullptr));
}

// The hook comes first: it tells services that a worker is gone, which may answer others and
// schedule events. The last process takes the free place, so that the end of one costs O(1).
void Engine::end(Process& process) {
  hooks_.ended(process);
  if (process.background_task.empty()) {
    ended_workers_.push_back({process.name(), std::string(kEnded), Seconds(now_)});
  }
  const std::size_t index = process.index;
  std::swap(processes_[index], processes_.back());
  processes_[index]->index = index;
  processes_.pop_back();
}

// With the last process the run ends, at its time: a message still in flight, or the alarm of a
// computation that was cut short, would only make the run look longer.
void Engine::loop() {
  while (processes_.size() > lost_) {
    if (aborted_.load(std::memory_order_relaxed)) [[unlikely]] {
      const std::lock_guard lock(abort_mutex_);
      std::rethrow_exception(abort_error_);
    }
    if (queue_.empty() && closing_) return;
    if (queue_.empty() && !hooks_.idle()) throw deadlock();
    const Event event = queue_.pop();
    now_ = event.seconds();
    ++events_;
    // While this event is handled the next one's stack comes in. With a thousand fibers, whose
    // stacks do not fit into the caches together, waiting for it would dominate the simulation.
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

// The run is torn down here and not only in the destructor: the fibers use what the caller of run()
// owns, and shall be gone when the exception reaches it.
void Engine::run() {
  try {
    loop();
  } catch (...) {
    tear_down();
    throw;
  }
  if (processes_.empty()) return;
  for (const auto& process : processes_) {
    if (process->background_task.empty()) left_behind_.emplace_back(process->rank, process->since);
  }
  tear_down();
}

void Engine::lose(int worker, bool finishes) {
  for (const auto& process : processes_) {
    if (process->rank != worker || process->lost) continue;
    process->leaving = finishes && process->computes;
    process->lost = !process->leaving;
    if (process->lost) ++lost_;
  }
}

void Engine::stand_still(Process& self) {
  self.lost = true;
  ++lost_;
  block([] { return "its worker is lost"; });
}

void Engine::await_reach(Process& self) {
  const double since = now_, until = hooks_.reachable(self.rank, now_);
  if (until <= since) return;
  sleep_until(until);
  self.breakdown->wait += Seconds(now_ - since);
}

bool Engine::runs(int worker) const {
  return std::ranges::any_of(processes_, [&](const auto& process) {
    return process->rank == worker && process->background_task.empty() && !process->lost &&
           !process->leaving;
  });
}

std::optional<double> Engine::waits_since(int worker) const {
  for (const auto& [rank, since] : left_behind_) {
    if (rank == worker) return since;
  }
  return std::nullopt;
}

// Relaxed: the mutex orders the error itself, and a flag that is seen one event late does no harm.
void Engine::abort(std::exception_ptr error) {
  const std::lock_guard lock(abort_mutex_);
  if (!abort_error_) abort_error_ = std::move(error);
  aborted_.store(true, std::memory_order_relaxed);
}

// Fails the run for the running process. This error is seen only if the exception that unwinds the
// process is caught on the way: else that one leaves the body and ends the run first.
void Engine::fail_for(const std::string& left_behind) {
  abort(std::make_exception_ptr(CheckFailure(
      fmt::format("{} has caught an exception past a call that it never waited for: it {}",
                  current("settle").name(), left_behind))));
}

// The order matters: from now on the vocabulary does nothing and blocks for nothing; no thread
// touches buffers of a fiber; then the fibers go, each by FiberUnwind. All are unwound before the
// first is destroyed, because the destructors of one may still wake another, which only schedules
// an event that nobody handles. Mailboxes, monitors and rendezvous keep pointers into stacks that
// are gone, which nobody follows any more.
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

// No event is left, so every process is blocked and nobody can wake another. Sorted, because
// processes_ is in no order that a reader could use.
Error Engine::deadlock() const {
  std::vector<const Process*> blocked;
  for (const auto& process : processes_) blocked.push_back(process.get());
  std::sort(blocked.begin(), blocked.end(), [](const Process* a, const Process* b) {
    return std::tie(a->rank, a->background_task) < std::tie(b->rank, b->background_task);
  });
  std::vector<BlockedProcess> report;
  for (const Process* process : blocked) {
    report.push_back(
        {process->name(), process->describe(process->reason), Seconds(process->since)});
  }
  report.insert(report.end(), ended_workers_.begin(), ended_workers_.end());
  return deadlock_error(report);
}

}  // namespace hetsgd::sim
