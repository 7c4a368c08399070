// Control: messages between the processes of a cluster whose ranks do not share memory, beside the
// training: on no ledger, and not part of what an algorithm sees.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace hetsgd {

class Control {
 public:
  using Handler = std::function<void(int from, std::span<const std::byte> bytes)>;

  virtual ~Control() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // From any thread, also to the own rank. Does not wait for the receiver; messages of one pair
  // arrive in the order sent.
  virtual void send(int to, int kind, std::span<const std::byte> bytes) = 0;
  // Before the cluster's run(). Handlers run one at a time, on a thread of their own; messages of a
  // kind that has no handler yet wait for it. They must not block for long: they also carry the
  // signs of life.
  virtual void on_message(int kind, Handler handler) = 0;
  // The run that is on has failed: nobody need wait for a message any more.
  virtual bool failing() const = 0;
};

}  // namespace hetsgd
