// RNA's controller: chooses by random probes who starts a round (paper 004, sections 5.1.2, 5.4).
//
// Per round it probes q distinct random workers. A probed worker answers as soon as it has a
// gradient; the first answer makes that worker the round's initiator and activates the round for
// all, and the other probes expire. Answers that arrive at the same time: lowest rank.
// Messages per round and worker: one request and its deferred answer, "go"; per probe two more (the
// probe, and the request after it) and an answer with its receipt.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/partial_replica.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace hetsgd {

enum class Ask : std::int32_t {
  next,   // a companion waits for this round, or to be probed in it
  ready,  // a probed worker has a gradient
  leave,  // a worker's loop is over: begin all further rounds at once
};
struct AskController {
  Ask ask;
  std::int32_t member;  // rank in the group
  std::int64_t round;
  bool leaving;  // with next: the worker's loop is over
};
struct ControllerSays {
  enum : std::int32_t { noted, probe, go } what;
  std::int32_t initiator;  // with go: its rank in the group
};

class Controller final : public Service<AskController, ControllerSays> {
 public:
  // q probes among `members` workers; `group` sets the draws of several controllers apart.
  Controller(int members, int probes, std::uint64_t seed, int group)
      : members_(members),
        probes_(std::min(probes, members)),
        seed_(seed),
        group_(group),
        waiting_(static_cast<std::size_t>(members)) {
    open(0);
  }

  void handle(int, const AskController& ask, std::span<const float>,
              Responder<ControllerSays> reply) override {
    if (ask.ask == Ask::leave || ask.leaving) hurry_ = true;
    switch (ask.ask) {
      case Ask::next:
        // The round before was everybody's: all have taken part when one asks for this one.
        if (ask.round > round_) open(ask.round);
        return next(ask.member, std::move(reply));
      case Ask::ready:
        if (ask.round == round_ && initiator_ < 0) activate(ask.member);  // else it has expired
        break;
      case Ask::leave:
        if (initiator_ < 0) activate(ask.member);
        break;
    }
    reply({.what = ControllerSays::noted, .initiator = -1}, {}, Traffic::control);
  }

 private:
  void open(std::int64_t round) {
    round_ = round;
    initiator_ = -1;
    RandomStream random(seed_, Purpose::peer_choice, static_cast<std::uint64_t>(round),
                        static_cast<std::uint32_t>(group_));
    probed_.clear();
    while (static_cast<int>(probed_.size()) < probes_) {
      const auto member = static_cast<int>(random.below(static_cast<std::uint64_t>(members_)));
      if (std::ranges::find(probed_, member) == probed_.end()) probed_.push_back(member);
    }
  }

  void next(int member, Responder<ControllerSays> reply) {
    if (hurry_ && initiator_ < 0) activate(member);
    if (initiator_ >= 0) return go(reply);
    if (std::erase(probed_, member) > 0) {
      return reply({.what = ControllerSays::probe, .initiator = -1}, {}, Traffic::control);
    }
    waiting_[static_cast<std::size_t>(member)] = std::move(reply);
  }

  void activate(int initiator) {
    initiator_ = initiator;
    for (auto& reply : waiting_) {
      if (reply) go(*reply);
      reply.reset();
    }
  }

  void go(Responder<ControllerSays>& reply) const {
    reply({.what = ControllerSays::go, .initiator = initiator_}, {}, Traffic::control);
  }

  const int members_, probes_;
  const std::uint64_t seed_;
  const int group_;
  std::int64_t round_ = 0;
  int initiator_ = -1;       // -1: not activated yet
  std::vector<int> probed_;  // members still to be told
  bool hurry_ = false;
  std::vector<std::optional<Responder<ControllerSays>>> waiting_;  // by member
};

// A worker's side.
class Probing final : public Activation {
 public:
  // The reducing companion, before a round: from now on this controller decides.
  void join(Worker& self, PartialReplica& replica, int group, int member, int members, int probes,
            const std::string& service) {
    const std::lock_guard guard(replica.monitor());
    client_ = self.serve<Controller>(service, members, probes, self.plan().seed, group);
    member_ = member;
    probed_ = false;
  }

  void offer(PartialReplica& replica, bool) override {
    std::optional<Client> client;
    AskController ask{Ask::ready, 0, 0, false};
    {
      const std::lock_guard guard(replica.monitor());
      if (!probed_ || !replica.ready()) return;
      probed_ = false;
      client = client_;
      ask.member = member_;
      ask.round = replica.round();
    }
    client->call(ask);
  }

  // Before the companion has joined, or once it joins another group, its next request says it.
  void leave(PartialReplica& replica) override {
    std::optional<Client> client;
    std::int32_t member = 0;
    {
      const std::lock_guard guard(replica.monitor());
      if (replica.ended()) return;
      client = client_;
      member = member_;
    }
    if (client) client->call({Ask::leave, member, 0, true});
  }

  int await(PartialReplica& replica, std::int64_t round) override {
    for (;;) {
      AskController ask{Ask::next, member_, round, false};
      {
        const std::lock_guard guard(replica.monitor());
        ask.leaving = replica.leaving();
      }
      const ControllerSays said = client_->call(ask);
      const bool probe = said.what == ControllerSays::probe;
      {
        const std::lock_guard guard(replica.monitor());
        probed_ = probe && !replica.ready();
        if (!probe) return said.initiator;
        if (probed_) continue;
      }
      client_->call({Ask::ready, member_, round, false});
    }
  }

 private:
  using Client = ServiceClient<AskController, ControllerSays>;
  std::optional<Client> client_;  // written with the replica's monitor held, by the companion
  std::int32_t member_ = 0;
  bool probed_ = false;  // guarded by the replica's monitor: a probe waits for a gradient
};

}  // namespace hetsgd
