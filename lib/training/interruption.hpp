// Interruption: how work that no cluster knows of learns that its run is to end, by a signal or the
// time limit: setting up, and measuring, which take as long as the model and the data are large.
#pragma once

#include <mutex>
#include <optional>

#include "cluster/cluster.hpp"

namespace hetsgd {

class Interruption {
 public:
  // Any thread; the first one counts.
  void request(const Interrupted& reason) {
    const std::lock_guard lock(mutex_);
    if (!reason_) reason_ = reason;
  }
  // Throws the reason, if there is one. Any thread.
  void check() const {
    const std::lock_guard lock(mutex_);
    if (reason_) throw Interrupted(*reason_);
  }

 private:
  mutable std::mutex mutex_;  // guards reason_
  std::optional<Interrupted> reason_;
};

}  // namespace hetsgd
