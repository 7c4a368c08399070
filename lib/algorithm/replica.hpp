// Replica: one copy of the parameters with the learning state that belongs to it. State lies where
// the weights are, and two replicas of one worker share nothing. To save a replica, or to hand it
// to another worker, is to save or hand over these members.
//
// Worker makes the members when they are first needed, so a method takes only the memory that it
// uses. A replica that takes fused steps of plain SGD has neither a gradient nor an optimizer.
//
// All of it is memory of one device, which must outlive the replica. Move-only, as its buffers are.
// Nothing in it is guarded: two processes that share a replica need a Monitor of their own.
#pragma once

#include <functional>
#include <memory>

#include "linalg/buffer_field.hpp"
#include "model/model.hpp"
#include "optimizer/optimizer.hpp"

namespace hetsgd {

struct Replica {
  Buffer w;                              // [n]
  std::unique_ptr<Optimizer> optimizer;  // null: its next update begins with a fresh state
  Gradient gradient;                     // the last one: gradient.flat [n]; empty: none was built
  // A sum over workers has filled rows that no batch of this replica has touched. The next gradient
  // must clear them first, since models write only touched rows. An update must take all rows, not
  // only gradient.rows.
  bool gradient_is_dense = false;
  std::function<std::unique_ptr<Optimizer>()> make_optimizer{};  // for one that is loaded

  // Its parameters and the state of its optimizer; a gradient is of one step.
  void fields(Archive& fields) {
    fields("w", w);
    optimizer_fields(fields);
  }
  void optimizer_fields(Archive& fields) {
    bool has_optimizer = optimizer != nullptr;
    fields("has_optimizer", has_optimizer);
    if (!has_optimizer) return;
    if (!optimizer) optimizer = make_optimizer();
    fields("optimizer", *optimizer);
  }
};

}  // namespace hetsgd
