// RNA's controller: random probes choose the worker that starts a round (RNA, sections 5.1.2, 5.4).
//
// Per round it probes q distinct random workers. A probed worker answers as soon as it has a
// gradient (Trigger defines which gradients count). The first answer makes that worker the round's
// initiator and activates the round for all, and the other probes expire. If answers arrive at the
// same time, the lowest rank wins.
//
// The controller is a Service, which cannot send of its own accord. So a probe is the answer to a
// request that the worker's background task has left with it. The controller's states in a round,
// and the answer to a member's `next` in each:
//
//              open(k): q members drawn            first `ready` of round k,
//              from (seed, k, group)               or any `leave`
//   -- next of round k -->  PROBING  ------------------------------>  ACTIVATED (initiator)
//                           drawn, not told yet: probe                go
//                           else: kept waiting                        all waiting: go
//          ^                                                              |
//          '-------------------- next of round k + 1 --------------------'
//
// The background task of a member:
//
//   next(k) -- go -------------------------------------------> the round
//      ' probe -+ it is ready: ready(k), next(k) ------------> go
//               ' it is not: probed_, next(k) -- waits ------> go
//                  (main process, after a deposit that makes it so: ready(k))
//
// Every probe is answered, even with the trigger `fresh`. A waiting main process has deposited a
// gradient at the newest model. A main process that continues takes the newest model first. (If its
// loop is over, it sends `leave`.)
//
// A `ready` that comes after the activation, or in a later round, has expired and is only noted. A
// round needs every member, so when one asks for round k + 1 none waits in round k any more. After
// a `leave` every round begins at the first request, without waiting for workers that still
// compute.
//
// Messages per round and worker: one request and its deferred answer, "go". Each probe adds two
// (the probe, and the request after it) and an answer with its receipt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/parts/partial_replica.hpp"

namespace hetsgd {

enum class Ask : std::int32_t {
  next,   // a background task waits for this round, or to be probed in it
  ready,  // a probed worker has a gradient
  leave,  // a worker's loop is over: begin all further rounds at once
};
// Plain bytes: they travel between processes.
struct AskController {
  Ask ask;
  std::int32_t member;  // rank in the group
  std::int64_t round;
  bool leaving;  // with next: the worker's loop is over
};
struct ControllerSays {
  // noted: the receipt of ready and leave. probe: answer `ready` as soon as there is a gradient.
  enum : std::int32_t { noted, probe, go } what;
  std::int32_t initiator;  // with go: its rank in the group
};

// One per group. Serial, as every Service: its state needs no lock.
class Controller final : public Service<AskController, ControllerSays> {
 public:
  // q probes among `members` workers; `group` gives each controller draws of its own.
  Controller(int members, int probes, std::uint64_t seed, int group);

  void handle(int, const AskController& ask, std::span<const float>,
              Responder<ControllerSays> reply) override;

 private:
  // PROBING, with new draws: a pure function of (seed, round, group), so that sim repeats a run.
  void open(std::int64_t round);
  void next(int member, Responder<ControllerSays> reply);
  void activate(int initiator);
  void go(Responder<ControllerSays>& reply) const;

  const int members_, probes_;
  const std::uint64_t seed_;
  const int group_;
  std::int64_t round_ = 0;
  int initiator_ = -1;       // -1: not activated yet
  std::vector<int> probed_;  // members still to be told
  bool hurry_ = false;       // a worker's loop is over; never reset
  std::vector<std::optional<Responder<ControllerSays>>> waiting_;  // by member
};

// A worker's side, which its main process and its background task share. The replica's monitor is
// the lock. No call of the controller is made with it held, because the answer may take a round.
// Each of the two processes has a client of its own, as a port belongs to one process.
class Probing final : public Activation {
 public:
  explicit Probing(Trigger trigger) : trigger_(trigger) {}

  // The reducing background task calls this before a round; from now on this controller decides. A
  // probe of the previous controller is forgotten, because its group has no further round.
  void join(Worker& self, PartialReplica& replica, int group, int member, int members, int probes,
            const std::string& service);

  // Answers a probe that waits for a gradient like this one; otherwise does nothing.
  void offer(Worker& self, PartialReplica& replica, bool fresh) override;
  // If the background task has not joined yet, or joins another group, its next request carries the
  // message.
  void leave(Worker& self, PartialReplica& replica) override;
  int await(PartialReplica& replica, std::int64_t round) override;

 private:
  using Client = ServiceClient<AskController, ControllerSays>;
  // A worker's membership with a controller.
  struct Membership {
    std::string service;
    int group = 0, member = 0, members = 0, probes = 0;
  };
  static Client open(Worker& self, const Membership& membership);
  // For the main process, without the monitor.
  void call(Worker& self, const Membership& membership, const AskController& ask);

  const Trigger trigger_;
  // Both with the replica's monitor held, the background task writes it and the main process reads
  // it.
  std::optional<Membership> membership_;
  bool probed_ = false;            // guarded by the replica's monitor: a probe waits for a gradient
  std::optional<Client> reducer_;  // the background task's
  std::optional<Client> main_;     // the main process's, to the controller of this name
  std::string main_service_;
};

}  // namespace hetsgd
