// What the ranks' clients say to each other, as bytes. Part of rank_client.
//
//   kind         from -> to         bytes                  handled by
//   kReport      rank -> 0          CountersAndExtra       absorb()
//   kState       0 -> others        RankClient::State      take()
//   kHalt        0 -> all           none                   halting; answers kStand
//   kStand       all -> 0           points begun           on_stand()
//   kStopPoint   0 -> all           the largest of them    stops_here() goes on
//   kModel       rank -> 0          Model                  on_model(): measures
//   kMeasured    0 -> that rank     none                   evaluate_alone() goes on
//   kAskReplica  rank -> all        none                   send_replica()
//   kReplica     all -> that rank   n floats               mean_of_published() goes on
//   kAskRows     0 -> all           places in its shard    send_rows()
//   kRows        all -> 0           its columns of them    gather_rows() goes on
//   kTrace       rank -> 0          its TraceLines         gather() goes on
//
// Bytes that are not what they should be are an Error(data) that names the rank: both ends run the
// same program, so it is a fault of the program or of the network.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

#include "core/byte_stream.hpp"
#include "training/referee.hpp"

namespace hetsgd::rank_messages {

// Kinds of control messages, from RankClient's first one on. kMessages is their number: the next
// run of the process begins behind them, so that a late message of one run cannot meet another.
enum Message : int {
  kReport,
  kState,
  kHalt,
  kStand,
  kStopPoint,
  kModel,
  kMeasured,
  kAskReplica,
  kReplica,
  kAskRows,
  kRows,
  kTrace,
  kMessages
};

// A model to be measured by rank 0. What is read has the members of what was sent: a span of what
// the pause keeps whole on the one side, a vector of its own on the other.
template <class Parameters>
struct ModelOf {
  double time_s = 0;
  double prepare_s = 0;  // host time that making it took
  std::int32_t due = 0;
  Parameters parameters{};

  static constexpr auto members() {
    return std::tuple(&ModelOf::time_s, &ModelOf::prepare_s, &ModelOf::due, &ModelOf::parameters);
  }
};
using SentModel = ModelOf<std::span<const float>>;
using ReceivedModel = ModelOf<std::vector<float>>;

// A report: the counters, and what only some have (events, histograms, warnings) as CBOR, empty if
// there is none of it. Most reports of asynchronous algorithms, one per step, are the counters
// alone.
struct CountersAndExtra {
  Referee::Counters counters{};
  std::vector<std::uint8_t> extra{};

  static constexpr auto members() {
    return std::tuple(&CountersAndExtra::counters, &CountersAndExtra::extra);
  }
};

}  // namespace hetsgd::rank_messages
