#include "linalg/cpu/cores.hpp"

#include <system_error>

#include "core/error.hpp"

namespace hetsgd::cpu {

Cores::Cores(int count) {
  const auto helpers = static_cast<std::size_t>(count) - 1;
  helpers_.reserve(helpers);
  try {
    for (std::size_t part = 1; part <= helpers; ++part) {
      helpers_.emplace_back([this, part] { help(part); });
    }
  } catch (const std::system_error& error) {
    const std::size_t started = helpers_.size();
    start({});
    for (std::thread& helper : helpers_) helper.join();
    throw with_hint(device_error("cpu:{}: the system gave {} threads, then: {}", count, started + 1,
                                 error.what()),
                    "ask for fewer cores or raise the limit of processes (ulimit -u)");
  }
}

Cores::~Cores() {
  start({});
  for (std::thread& helper : helpers_) helper.join();
}

void Cores::start(const Job& job) const {
  job_ = job;
  busy_.store(helpers_.size(), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
}

void Cores::finish() const {
  for (std::size_t busy = busy_.load(std::memory_order_acquire); busy != 0;
       busy = busy_.load(std::memory_order_acquire)) {
    busy_.wait(busy, std::memory_order_acquire);
  }
}

void Cores::help(std::size_t part) const {
  for (std::uint32_t generation = 0;; ++generation) {
    generation_.wait(generation, std::memory_order_acquire);
    const Job job = job_;
    if (job.call == nullptr) return;
    if (part < job.parts) job.call(job.context, part);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace hetsgd::cpu
