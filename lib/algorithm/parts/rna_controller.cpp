#include "algorithm/parts/rna_controller.hpp"

#include <algorithm>
#include <mutex>

#include "core/random.hpp"

namespace hetsgd {

Controller::Controller(int members, int probes, std::uint64_t seed, int group)
    : members_(members),
      probes_(std::min(probes, members)),
      seed_(seed),
      group_(group),
      waiting_(static_cast<std::size_t>(members)) {
  open(0);
}

void Controller::handle(int, const AskController& ask, std::span<const float>,
                        Responder<ControllerSays> reply) {
  if (ask.ask == Ask::leave || ask.leaving) hurry_ = true;
  switch (ask.ask) {
    case Ask::next:
      // All members have taken part in the round before when one asks for this one.
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

void Controller::open(std::int64_t round) {
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

void Controller::next(int member, Responder<ControllerSays> reply) {
  if (hurry_ && initiator_ < 0) activate(member);
  if (initiator_ >= 0) return go(reply);
  if (std::erase(probed_, member) > 0) {
    return reply({.what = ControllerSays::probe, .initiator = -1}, {}, Traffic::control);
  }
  waiting_[static_cast<std::size_t>(member)] = std::move(reply);
}

void Controller::activate(int initiator) {
  initiator_ = initiator;
  for (auto& reply : waiting_) {
    if (reply) go(*reply);
    reply.reset();
  }
}

void Controller::go(Responder<ControllerSays>& reply) const {
  reply({.what = ControllerSays::go, .initiator = initiator_}, {}, Traffic::control);
}

Probing::Client Probing::open(Worker& self, const Membership& m) {
  return self.serve<Controller>(m.service, m.members, m.probes, self.plan().seed, m.group);
}

void Probing::join(Worker& self, PartialReplica& replica, int group, int member, int members,
                   int probes, const std::string& service) {
  const std::lock_guard guard(replica.monitor());
  membership_ = {service, group, member, members, probes};
  reducer_ = open(self, *membership_);
  probed_ = false;
}

void Probing::call(Worker& self, const Membership& membership, const AskController& ask) {
  if (!main_ || main_service_ != membership.service) {
    main_ = open(self, membership);
    main_service_ = membership.service;
  }
  main_->call(ask);
}

// The replica, under the lock that guards the probe, says whether the gradient is fresh.
void Probing::offer(Worker& self, PartialReplica& replica, bool) {
  Membership membership;
  AskController ask{Ask::ready, 0, 0, false};
  {
    const std::lock_guard guard(replica.monitor());
    if (!probed_ || !replica.ready(trigger_)) return;
    probed_ = false;
    membership = *membership_;
    ask.member = membership.member;
    ask.round = replica.round();
  }
  call(self, membership, ask);
}

void Probing::leave(Worker& self, PartialReplica& replica) {
  std::optional<Membership> membership;
  {
    const std::lock_guard guard(replica.monitor());
    if (replica.ended()) return;
    membership = membership_;
  }
  if (membership) call(self, *membership, {Ask::leave, membership->member, 0, true});
}

int Probing::await(PartialReplica& replica, std::int64_t round) {
  const std::int32_t member = membership_->member;
  for (;;) {
    AskController ask{Ask::next, member, round, false};
    {
      const std::lock_guard guard(replica.monitor());
      ask.leaving = replica.leaving();
    }
    const ControllerSays said = reducer_->call(ask);
    const bool probe = said.what == ControllerSays::probe;
    {
      const std::lock_guard guard(replica.monitor());
      probed_ = probe && !replica.ready(trigger_);
      if (!probe) return said.initiator;
      if (probed_) continue;
    }
    reducer_->call({Ask::ready, member, round, false});
  }
}

}  // namespace hetsgd
