#include "cluster/sim/transfer.hpp"

#include <algorithm>

namespace hetsgd::sim {

void Link::hold_up(double until) {
  for (const User& user : users_) user.transfer->hold_up(until);
}

void Transfer::begin(Engine& engine, std::span<const Hop> hops, double seconds, double share,
                     Engine::Handler done, void* object) {
  engine_ = &engine;
  hops_ = hops;
  share_ = share;
  done_ = done;
  object_ = object;
  held_until_ = engine.now();
  end_ = held_until_ + seconds;
  slowdown_ = 1;
  scheduled_ = kNever;
  join();
  schedule();
}

double Transfer::resumes() const { return std::max(engine_->now(), held_until_); }

void Transfer::hold_up(double until) {
  const double from = resumes();
  if (until <= from) return;
  end_ += until - from;
  held_until_ = until;
}

// Does nothing where nothing changes: b + (end - b) may differ from the end in the last bit.
void Transfer::set_slowdown(double slowdown) {
  if (slowdown == slowdown_) return;
  const double from = resumes();
  end_ = from + (end_ - from) * (slowdown / slowdown_);
  slowdown_ = slowdown;
}

// An end that has moved to later is found by the event at the old one.
void Transfer::schedule() {
  if (end_ >= scheduled_) return;
  scheduled_ = end_;
  engine_->at(end_, due, this);
}

void Transfer::due(void* object) {
  auto& self = *static_cast<Transfer*>(object);
  if (self.engine_->now() != self.scheduled_) return;
  self.scheduled_ = kNever;
  if (self.end_ > self.engine_->now()) return self.schedule();
  self.leave();
  self.done_(self.object_);
}

void Transfer::join() {
  double slowdown = 1, busy_until = 0;
  for (std::size_t hop = 0; hop < hops_.size(); ++hop) {
    Link& link = *hops_[hop].link;
    link.users_.push_back({this, hop, share_ * hops_[hop].share});
    busy_until = std::max(busy_until, link.busy_until());
    if (link.users_.size() == 1) continue;
    const double load = link.load();
    if (load > slowdown) {
      slowdown = load;
      fullest_ = hop;
    }
    for (const Link::User& user : link.users_) {
      Transfer& other = *user.transfer;
      if (&other == this || load <= other.slowdown_) continue;
      other.set_slowdown(load);
      other.fullest_ = user.hop;
    }
  }
  hold_up(busy_until);
  set_slowdown(slowdown);
}

void Transfer::leave() {
  for (const Hop& hop : hops_) {
    std::vector<Link::User>& users = hop.link->users_;
    users.erase(std::ranges::find(users, this, &Link::User::transfer));
    for (const Link::User& user : users) {
      Transfer& other = *user.transfer;
      if (other.slowdown_ > 1 && other.fullest_ == user.hop) other.speed_up();
    }
  }
}

// Looks from that link on, and no further than to one that is as full as it was: so a transfer over
// many links does not look at all of them each time that one of many small ones leaves it.
void Transfer::speed_up() {
  double slowdown = 1;
  const std::size_t first = fullest_;
  for (std::size_t i = 0; i < hops_.size() && slowdown < slowdown_; ++i) {
    const std::size_t hop = (first + i) % hops_.size();
    const double load = hops_[hop].link->load();
    if (load <= slowdown) continue;
    slowdown = load;
    fullest_ = hop;
  }
  set_slowdown(slowdown);
  schedule();
}

}  // namespace hetsgd::sim
