#include "cluster/mpi/protocol/first_error.hpp"

#include "cluster/cluster.hpp"
#include "cluster/mpi/protocol/messages.hpp"
#include "core/error.hpp"

namespace hetsgd::mpi {

Failure Failure::of(std::exception_ptr error, int rank, int size) {
  // std::exception comes last, as the others are derived from it. Whatever is not an Error of ours
  // counts as an error at run time.
  Failure failure{.code = static_cast<int>(ExitCode::runtime)};
  try {
    std::rethrow_exception(std::move(error));
  } catch (const Error& e) {
    failure = {.code = static_cast<int>(e.code()), .text = e.what(), .hint = e.hint()};
  } catch (const Interrupted& e) {  // it names no rank
    return {.code = failure.code, .interrupted = e.signal(), .text = e.what()};
  } catch (const CheckFailure& e) {
    failure.is_check = true;
    failure.text = e.what();
  } catch (const std::exception& e) {
    failure.text = e.what();
  } catch (...) {
    failure.text = "an exception of an unknown type";
  }
  if (size > 1) failure.text.insert(0, fmt::format("rank {}: ", rank));
  return failure;
}

std::exception_ptr Failure::exception() const {
  // The order is that in which of() tells the kinds apart.
  if (interrupted >= 0) return std::make_exception_ptr(Interrupted(interrupted, text));
  if (is_check) return std::make_exception_ptr(CheckFailure(text));
  return std::make_exception_ptr(Error(static_cast<ExitCode>(code), text, hint));
}

FirstError::FirstError(Control& control, std::function<void(std::exception_ptr)> fail_run)
    : control_(control), fail_run_(std::move(fail_run)) {
  // On rank 0, from any rank.
  on_values<int, Failure>(control_, kFailed, [this](int, int epoch, const Failure& failure) {
    decide(epoch, failure);
  });
  // On all other ranks, from rank 0.
  on_values<int, Failure>(control_, kFailure, [this](int, int epoch, const Failure& failure) {
    on_failure(epoch, failure);
  });
}

// The error goes through rank 0 even on rank 0: only the order of arrival there decides which error
// is first. The epoch is read without holding the mutex over the send; an error of a run that ends
// meanwhile is dropped by decide(), because its epoch is over.
void FirstError::fail(std::exception_ptr error) {
  const Failure failure = Failure::of(std::move(error), control_.rank(), control_.size());
  send_values(control_, 0, kFailed, epoch(), failure);
}

void FirstError::fail_all(const Failure& failure) { decide(epoch(), failure); }

// On rank 0, by the thread of `control`. An error of an older epoch came too late to be anybody's;
// one of a later epoch is of a rank that has ended the run before this one did. The test and the
// entry in on_failure() are two critical sections, but this thread alone writes failures_.
void FirstError::decide(int epoch, const Failure& failure) {
  {
    const Lock guard = lock();
    if (epoch < epoch_ || epoch <= over_ || failures_.contains(epoch)) return;
  }
  on_failure(epoch, failure);
  // Rank 0 itself has acted already: it does not wait for a message to itself.
  for (int to = 1; to < control_.size(); ++to) send_values(control_, to, kFailure, epoch, failure);
}

// Every rank. Records the error and wakes all waits. The run is told only where the error is of
// this rank's own epoch: a later epoch's run finds it at its start.
void FirstError::on_failure(int epoch, const Failure& failure) {
  bool now = false;
  {
    const Lock guard = lock();
    failures_.emplace(epoch, failure);
    now = epoch == epoch_;
    notify();
  }
  // The run is told without the mutex: it wakes its threads, and these may call fail().
  if (now) fail_run_(failure.exception());
}

void FirstError::lose_a_rank(const Failure& why) {
  {
    const Lock guard = lock();
    lost_ = why;
    lost_rank_ = true;
    notify();
  }
  // Other ranks are alive as far as rank 0 knows; without rank 0 nobody can be told anything.
  control_.rank() == 0 ? decide(epoch(), why) : on_failure(epoch(), why);
}

int FirstError::epoch() const {
  const Lock guard = lock();
  return epoch_;
}

void FirstError::over(int epoch) {
  const Lock guard = lock();
  over_ = epoch;
}

std::optional<Failure> FirstError::end_epoch() {
  const Lock guard = lock();
  // The epoch ends and is read in one step: an error that arrives after this is the next run's.
  const auto found = failures_.find(epoch_++);
  return found == failures_.end() ? std::nullopt : std::optional(found->second);
}

const Failure* FirstError::between_runs() const {
  // A loss comes first: it says why the rest cannot go on.
  if (lost_) return &*lost_;
  const auto found = failures_.find(epoch_);
  return found == failures_.end() || found->second.interrupted >= 0 ? nullptr : &found->second;
}

}  // namespace hetsgd::mpi
