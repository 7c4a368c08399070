// Agreement: outside of runs (options, data) all ranks come to the same points, and leave them with
// rank 0's answer or with the same error.
//
//   every rank: kAgree(failure or answer) to rank 0, which waits for all
//   rank 0:     kAgreed(the failure of the lowest rank that has one, else its own answer) to all
//
//                    all have said        kAgreed
//    asks (kAgree) --------------> decided --------> result on every rank
//        |  a rank is lost, or the next run has failed already
//        +---------------------------------------------------> that failure
//
// Agreements of a rank follow each other, and so do their messages: one rank may have begun its
// next agreement while another has not heard of this one. Rank 0 keeps what comes early, in one
// queue per rank. So no agreement needs a number. When a rank is lost nobody waits for it any more:
// rank 0 answers with that failure.
#pragma once

#include <atomic>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "cluster/mpi/protocol/first_error.hpp"

namespace hetsgd::mpi {

class Agreement {
 public:
  // The result of an agreement. A rank also states its own answer or failure in this form.
  struct Result {
    // Rank 0's answer, in the result.
    std::vector<std::byte> answer{};
    // The lowest rank that has failed; -1: none has.
    int failed = -1;
    Failure failure{};
    // On rank 0, where nobody has failed: the answers of all, by rank.
    std::vector<std::vector<std::byte>> answers{};

    // The members that travel. The answers of all stay on rank 0.
    static constexpr auto members() {
      return std::tuple(&Result::answer, &Result::failed, &Result::failure);
    }
  };

  // Registers its handlers. Both must outlive this object.
  Agreement(Control& control, FirstError& errors);

  // Collective: every rank calls it, one thread at a time. answer: any bytes, which may differ
  // between ranks in content and size. failure: this rank's, where it has one. Blocks until rank 0
  // has decided; errors are returned and not thrown. Cost: 2 p messages through rank 0.
  Result agree(std::span<const std::byte> answer, const std::optional<Failure>& failure);
  // This rank waits for the others, so a silence of theirs matters now. Any thread.
  bool waits() const { return waits_; }

 private:
  void on_agree(int from, Result answer);

  Control& control_;
  FirstError& errors_;
  std::atomic<bool> waits_ = false;
  // Decisions that agree() has not taken yet. Guarded by the mutex of errors_.
  std::deque<Result> agreed_;
  // On rank 0: the answers of all ranks in the last agreement. Guarded likewise.
  std::vector<std::vector<std::byte>> answers_;
  // On rank 0, by rank: what the rank has said and no decision has used yet. The control's thread
  // only.
  std::vector<std::deque<Result>> said_;
};

}  // namespace hetsgd::mpi
