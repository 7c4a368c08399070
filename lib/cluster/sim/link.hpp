// Link: the traffic on one wire of a simulated run.
//
// Messages, and requests and replies of services, pass each direction of a link one after the
// other, first come first served. Each has the link's whole rate. Collectives (transfer.hpp) share
// what is left: a message passes first, and a collective that takes the same link, in either
// direction, stands still meanwhile.
//
//   messages        |=m1=|     |===m2===|
//   collective   ===|....|=====|........|======     ends later by what m1 and m2 took
//
// Not thread-safe: all of it belongs to the event loop's thread. Times are virtual seconds, sizes
// charged bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace hetsgd::sim {

class Transfer;

// Direction as seen from the link's owner, a worker or the services' host.
enum class Direction { out, in };

class Link {
 public:
  // With `shared_medium` both directions are one: a bus, for all that are on it.
  explicit Link(double bytes_per_s, bool shared_medium = false)
      : bytes_per_s_(bytes_per_s), shared_medium_(shared_medium) {}

  // When the first and the last byte of a message pass.
  struct Slot {
    double start = 0, end = 0;
  };
  // They pass as soon after `now` as the direction is free, which is taken from then on: so each
  // message passes exactly once, and messages in the order of time.
  Slot pass(Direction direction, double now, double bytes) {
    double& free = free_[shared_medium_ ? 0 : static_cast<std::size_t>(direction)];
    const double start = std::max(now, free);
    free = start + bytes / bytes_per_s_;
    taken_s_[static_cast<std::size_t>(direction)] += bytes / bytes_per_s_;
    if (!users_.empty()) hold_up(free);
    return {start, free};
  }
  // When the link gets free. If that is later than now, messages take the link until then without a
  // break.
  double busy_until() const { return std::max(free_[0], free_[1]); }
  // Seconds that messages have taken of the link so far, in its busier direction.
  double taken_s() const { return std::max(taken_s_[0], taken_s_[1]); }
  double bytes_per_s() const { return bytes_per_s_; }
  // Until when it is taken and how long it was; no collective uses it.
  std::span<double> free_until() { return free_; }
  std::span<double> taken() { return taken_s_; }

 private:
  friend class Transfer;
  // A collective on the link, which of its links this is, and the share of the rate that it takes
  // when it is alone.
  struct User {
    Transfer* transfer;
    std::size_t hop;
    double share;
  };
  double load() const {
    double sum = 0;
    for (const User& user : users_) sum += user.share;
    return sum;
  }
  void hold_up(double until);

  double bytes_per_s_;
  bool shared_medium_;
  std::array<double, 2> free_{};  // by direction: when it gets free
  std::array<double, 2> taken_s_{};
  std::vector<User> users_;  // in the order of their beginnings
};

}  // namespace hetsgd::sim
