// Control: messages between the processes of a cluster whose ranks do not share memory, beside the
// training: on no breakdown, and not part of what an algorithm sees.
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
  // Called from any thread; `to` may be the own rank. Copies the bytes and does not wait for the
  // receiver; messages of one pair arrive in the order sent. `kind` >= 0 selects the handler;
  // kinds below 0 are the cluster's own.
  virtual void send(int to, int kind, std::span<const std::byte> bytes) = 0;
  // Before the cluster's run(). Handlers run one at a time, on a thread of their own; messages of a
  // kind that has no handler yet wait for it. A handler must not block for long: its thread also
  // sends the heartbeats, without which the other ranks take this one for lost.
  virtual void on_message(int kind, Handler handler) = 0;
  // The run that is on has failed: a message that somebody waits for may never come.
  virtual bool failing() const = 0;
};

}  // namespace hetsgd
