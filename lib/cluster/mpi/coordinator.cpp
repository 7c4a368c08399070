#include <cstring>

#include "cluster/mpi/coordinator_messages.hpp"
#include "cluster/threads/world.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

namespace {

using threads::World;

// So long a message to all may take; who gets it later goes on a little later than the others.
constexpr std::int64_t kNoticeNs = 500'000;
constexpr std::int64_t kStartNoticeNs = 2'000'000;
// After a failure nobody waits longer for another rank; one that is lost comes no more.
constexpr Seconds kFailureGrace{10};
constexpr Seconds kLossGrace{2};

struct Come {
  int epoch;
  Coordinator::Meeting meeting;
};
struct Met {
  int epoch;
  Coordinator::Meeting meeting;
  std::int64_t start_at;
};
struct Go {
  std::int64_t at;
  int owner;
};
struct Resume {
  std::int64_t at;
  bool together;
};

}  // namespace

// --- messages

Coordinator::Coordinator(Channel& channel, const std::vector<MpiRank>& ranks)
    : channel_(channel), ranks_(ranks) {
  install_handlers();
}

template <class T>
void Coordinator::to_root(int kind, const T& value) {
  channel_.send(0, kind, std::as_bytes(std::span(&value, 1)));
}

template <class T>
void Coordinator::to_all(int kind, const T& value) {
  channel_.send_to_all(kind, std::as_bytes(std::span(&value, 1)));
}

template <class T, class Fn>
void Coordinator::on(int kind, Fn fn) {
  channel_.on_message(
      kind, [fn](int from, std::span<const std::byte> bytes) { fn(from, read<T>(bytes)); });
}

void Coordinator::install_handlers() {
  channel_.on_message(kCome, [this](int from, auto bytes) { on_come(from, bytes); });
  channel_.on_message(kMet, [this](int, auto bytes) { on_met(bytes); });
  channel_.on_message(kFailed, [this](int, auto bytes) {
    const auto [epoch, failure] = unpack(bytes);
    decide(epoch, failure);
  });
  channel_.on_message(kFailure, [this](int, auto bytes) {
    auto [epoch, failure] = unpack(bytes);
    on_failure(epoch, std::move(failure));
  });
  channel_.on_message(kAgree, [this](int from, auto bytes) { on_agree(from, bytes); });
  channel_.on_message(kAgreed, [this](int, std::span<const std::byte> bytes) {
    const std::lock_guard guard(mutex_);
    agreed_.emplace_back(bytes.begin(), bytes.end());
    changed_.notify_all();
  });
  channel_.on_message(kBlocked, [this](int from, auto bytes) { on_blocked(from, bytes); });
  on<int>(kLeft, [this](int from, int) {
    const std::lock_guard guard(local_mutex_);
    if (local_) local_->left(from);
  });
  install_service_handlers();
  on<int>(kAskGroup, [this](int from, int) {
    ++last_group_;
    channel_.send(from, kGroup, std::as_bytes(std::span(&last_group_, 1)));
  });
  on<int>(kGroup, [this](int, int group) {
    const std::lock_guard guard(mutex_);
    groups_.push_back(group);
  });
  on<bool>(kAskFence, [this](int from, bool together) {
    asked_.push_back({from, together});
    if (asked_.size() == 1) start_next_fence();
  });
  on<int>(kStop, [this](int, int) { stopping_ = fenced_ = true; });
  on<std::int64_t>(kStopped, [this](int, std::int64_t at) { on_stopped(at); });
  on<Go>(kGo, [this](int, const Go& go) {
    const std::lock_guard guard(local_mutex_);
    if (!local_) return;
    local_->freeze(go.at + offset_ns_);
    if (go.owner == channel_.rank()) local_->grant();
  });
  on<int>(kDone, [this](int, int) {
    if (asked_.empty()) return;  // the run has failed meanwhile
    to_all(kResume, Resume{World::monotonic_ns() + kNoticeNs, asked_.front().together});
    asked_.pop_front();
    start_next_fence();
  });
  on<Resume>(kResume, [this](int, const Resume& resume) {
    resume_at_ = resume.at + offset_ns_;
    resume_together_ = resume.together;
  });
}

// --- meetings

void Coordinator::come(Meeting meeting, std::span<const std::byte> content) {
  int epoch = 0;
  {
    const std::lock_guard guard(mutex_);
    epoch = meeting == Meeting::leave ? 0 : epoch_;
  }
  const Come head{epoch, meeting};
  std::vector<std::byte> bytes(sizeof head + content.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!content.empty()) std::memcpy(bytes.data() + sizeof head, content.data(), content.size());
  channel_.send(0, kCome, bytes);
}

void Coordinator::on_come(int from, std::span<const std::byte> bytes) {
  const auto come = read<Come>(bytes);
  const auto content = bytes.subspan(sizeof come);
  const std::pair key(come.epoch, come.meeting);
  Attendance& attendance = attendance_[key];
  const auto size = static_cast<std::size_t>(channel_.size());
  attendance.contents.resize(size);
  attendance.contents[static_cast<std::size_t>(from)].assign(content.begin(), content.end());
  if (++attendance.count < channel_.size()) return;
  if (come.meeting == Meeting::ended) {
    const std::lock_guard guard(mutex_);
    reports_ = std::move(attendance.contents);
  }
  attendance_.erase(key);
  to_all(kMet, Met{come.epoch, come.meeting, World::monotonic_ns() + kStartNoticeNs});
}

void Coordinator::on_met(std::span<const std::byte> bytes) {
  const auto met = read<Met>(bytes);
  if (met.meeting == Meeting::begin) {  // nothing of an earlier run is left
    asked_.clear();
    stopping_ = fenced_ = failing_ = quiet_said_ = false;
    resume_at_ = 0;
    last_group_ = 0;
    blocked_.assign(static_cast<std::size_t>(channel_.size()), {});
    channel_.set_failing(false);
  }
  if (met.meeting == Meeting::quiet) everybody_quiet_ = true;
  const std::lock_guard guard(mutex_);
  met_.emplace(met.epoch, met.meeting);
  if (met.meeting == Meeting::set_up) start_at_ = met.start_at;
  changed_.notify_all();
}

// False: the run has failed, or the limit (from the failure on, if there is none) has passed.
bool Coordinator::await(std::unique_lock<std::mutex>& lock, Meeting meeting,
                        std::optional<Seconds> limit) {
  const int epoch = meeting == Meeting::leave ? 0 : epoch_;
  const auto met = [&] { return met_.contains({epoch, meeting}); };
  const auto failed = [&] { return failures_.contains(epoch) || lost_peer_; };
  if (meeting == Meeting::begin || meeting == Meeting::set_up) {
    changed_.wait(lock, [&] { return met() || failed(); });
    return met() && !failed();
  }
  if (limit) return changed_.wait_for(lock, *limit, met);
  changed_.wait(lock, [&] { return met() || failed(); });
  return changed_.wait_for(lock, lost_peer_ ? kLossGrace : kFailureGrace, met);
}

// --- the run

bool Coordinator::begin(Local& local, Seconds peer_timeout) {
  {
    const std::scoped_lock guard(local_mutex_, mutex_);
    local_ = &local;
    peer_timeout_ = peer_timeout;
    everybody_quiet_ = false;
    groups_.clear();
    wanted_.clear();
  }
  come(Meeting::begin, {});
  std::unique_lock lock(mutex_);
  return await(lock, Meeting::begin, {});
}

std::int64_t Coordinator::set_up(std::int64_t offset_ns) {
  offset_ns_ = offset_ns;
  come(Meeting::set_up, {});
  std::unique_lock lock(mutex_);
  if (!await(lock, Meeting::set_up, {})) return World::monotonic_ns();
  return start_at_ + offset_ns;
}

void Coordinator::worker_left(int host) {
  const int none = 0;
  channel_.send(host, kLeft, std::as_bytes(std::span(&none, 1)));
}

std::vector<std::vector<std::byte>> Coordinator::end(std::span<const std::byte> report) {
  come(Meeting::ended, report);
  std::unique_lock lock(mutex_);
  await(lock, Meeting::ended, {});
  return std::move(reports_);
}

std::optional<Failure> Coordinator::end_run() {
  const std::scoped_lock guard(local_mutex_, mutex_);
  local_ = nullptr;
  const auto found = failures_.find(epoch_++);
  return found == failures_.end() ? std::nullopt : std::optional(found->second);
}

// --- groups

void Coordinator::ask_for_group() { to_root(kAskGroup, 0); }

int Coordinator::take_group() {
  const std::lock_guard guard(mutex_);
  if (groups_.empty()) return 0;
  const int group = groups_.front();
  groups_.pop_front();
  return group;
}

// --- errors

void Coordinator::fail(std::exception_ptr error) {
  int epoch = 0;
  {
    const std::lock_guard guard(mutex_);
    epoch = epoch_;
  }
  channel_.send(0, kFailed,
                pack(epoch, Failure::of(std::move(error), channel_.rank(), channel_.size())));
}

// On rank 0.
void Coordinator::decide(int epoch, const Failure& failure) {
  {
    const std::lock_guard guard(mutex_);
    // A failure that comes when the run has ended everywhere is none of the next.
    if (epoch < epoch_ || met_.contains({epoch, Meeting::ended}) || failures_.contains(epoch)) {
      return;
    }
  }
  on_failure(epoch, failure);
  for (int to = 1; to < channel_.size(); ++to) channel_.send(to, kFailure, pack(epoch, failure));
}

void Coordinator::on_failure(int epoch, Failure failure) {
  const std::exception_ptr error = failure.exception();
  bool now = false;
  {
    const std::lock_guard guard(mutex_);
    failures_.emplace(epoch, std::move(failure));
    now = epoch == epoch_;
    changed_.notify_all();
  }
  const std::lock_guard guard(local_mutex_);
  if (!now || !local_) return;
  failing_ = true;
  channel_.set_failing(true);
  local_->fail(error);
}

// --- fences

void Coordinator::ask_for_fence(bool together) { to_root(kAskFence, together); }
void Coordinator::fence_done() { to_root(kDone, 0); }

void Coordinator::start_next_fence() {
  stopped_ = 0;
  stopped_at_ = 0;
  if (!asked_.empty()) to_all(kStop, 0);
}

void Coordinator::on_stopped(std::int64_t at) {
  stopped_at_ = std::max(stopped_at_, at);
  if (++stopped_ == channel_.size() && !asked_.empty()) {
    to_all(kGo, Go{stopped_at_, asked_.front().owner});
  }
}

// True while the instant at which all go on is near. Everything else of a fence is off the clock
// and has time.
bool Coordinator::drive_fence() {
  if (failing_) return false;
  if (resume_at_ != 0 && World::monotonic_ns() >= resume_at_) {
    local_->resume(resume_at_, resume_together_);
    resume_at_ = 0;
    fenced_ = stopping_;
  }
  if (stopping_ && resume_at_ == 0) {  // the next fence begins when all have left the last one
    local_->stop();
    if (const std::int64_t at = local_->stopped_at(); at != 0) {
      stopping_ = false;
      to_root(kStopped, at - offset_ns_);
    }
  }
  return resume_at_ != 0;
}

Pace Coordinator::tick() {
  Pace pace = Pace::soon;
  {
    const std::lock_guard guard(local_mutex_);
    if (!local_) {
      if (leaving_ || agreeing_) look_for_signs_of_life();
      return pace;
    }
    if (failing_ && !quiet_said_ && !local_->still_receives()) {
      quiet_said_ = true;
      come(Meeting::quiet, {});
    }
    const bool resumes = drive_fence();
    pace = local_->pace();
    if (resumes || pace == Pace::at_once) return Pace::at_once;
    if (fenced_ || failing_) pace = Pace::soon;
    say_if_blocked();
  }
  look_for_signs_of_life();
  return pace;
}

}  // namespace hetsgd::mpi
