// The messages between the clients of the ranks (rank_calls.hpp). Part of rank_client.
//
//   message     from -> to       answer
//   kReport     rank -> 0        none; the referee may make an evaluation due, or end the run
//   kState      0 -> others      none; the decisions of rank 0
//   kHoldPoints 0 -> all         points begun, while the rank begins no further one
//   kStopPoint  0 -> all         none; a halting rank goes on
//   kMeasure    rank -> 0        the decisions of rank 0, once it has measured the model
//   kReplica    rank -> all      the replica that the rank has published
//   kRows       0 -> all         rows of its shard of the tables
//   kJoin       rank -> 0        none; a worker that was lost is back
//   kSettle     rank -> 0        the outcome of the segment, once all ranks have asked
//   kFields     rank -> others   none; the state that they go on from
//   kTrace      0 -> rank        the next part of its trace, once it gathers
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "cluster/trace/trace.hpp"
#include "core/byte_stream.hpp"
#include "training/client.hpp"
#include "training/rank_calls.hpp"
#include "training/referee.hpp"

namespace hetsgd {

// Elements that are never moved: a count and then the elements.
template <>
struct ByteForm<std::deque<CallLabel>> : detail::ByteSequence<CallLabel, std::deque<CallLabel>> {};

}  // namespace hetsgd

namespace hetsgd::rank_messages {

// The counters, and the optional parts of a report (events, histograms, warnings) as CBOR, empty if
// there are none. Asynchronous algorithms send one report per step, and most consist of the
// counters alone.
struct CountersAndExtra {
  Referee::Counters counters{};
  std::vector<std::uint8_t> extra{};

  static constexpr auto members() {
    return std::tuple(&CountersAndExtra::counters, &CountersAndExtra::extra);
  }
};

// The decisions of rank 0, and the last point of the curve. It is sent as plain bytes. Synchronous
// algorithms get it by broadcast at an evaluation, asynchronous ones by message after every change.
struct State {
  std::int32_t stop = 0;      // 0: the run goes on; else a RunEnd
  std::int32_t due = 0;       // number of the evaluation that is due; 0: none
  std::uint64_t samples = 0;  // learnt by all workers, as far as rank 0 knows
  double accuracy =
      std::numeric_limits<double>::quiet_NaN();  // of the point at `measured`; NaN: there is none
  std::uint64_t measured = 0;
};

// Why the workers leave: the run has ended, or its segment has and another one follows.
enum RunEnd : std::int32_t { kRunEnds = 1, kSegmentEnds = 2 };

// Synchronous: no point of the run from `point` on is begun. Where only the segment ends, the
// workers go on to the next running().
struct StopPoint {
  std::uint64_t point = 0;
  std::int32_t end = kRunEnds;
};

// An evaluation that all workers take part in; evaluation 0: this is none. Plain bytes.
struct Together {
  std::uint64_t evaluation = 0;     // its number
  double now_s = 0;                 // the latest clock
  std::uint64_t samples = 0;        // learnt by all workers
  std::uint64_t running_calls = 0;  // of the worker that sends the model
};

// A worker at the end of a segment. Plain bytes.
struct Settled {
  std::int32_t worker = 0;
  std::int32_t has_state = 0;  // it has kept the algorithm's state
  Client::Unsettled samples{};
};

// How a segment has ended.
struct Outcome {
  bool follows = false;
  std::vector<Settled> workers{};
  SavedFields known{};  // Referee::known

  static constexpr auto members() {
    return std::tuple(&Outcome::follows, &Outcome::workers, &Outcome::known);
  }
};

// The fields that workers have in common, and the own ones of the worker that sends them.
struct WorkerFields {
  SavedFields common{}, own{};

  static constexpr auto members() { return std::tuple(&WorkerFields::common, &WorkerFields::own); }
};

// A model to be measured by rank 0. It is sent from memory that the pause keeps unchanged, and
// received into a vector.
template <class Parameters>
struct ModelOf {
  double time_s = 0;
  double prepare_s = 0;  // wall-clock time that making it took
  std::int32_t due = 0;
  Together together{};
  Parameters parameters{};

  static constexpr auto members() {
    return std::tuple(&ModelOf::time_s, &ModelOf::prepare_s, &ModelOf::due, &ModelOf::together,
                      &ModelOf::parameters);
  }
};
using SentModel = ModelOf<std::span<const float>>;
using ReceivedModel = ModelOf<std::vector<float>>;

// A part of what a rank has traced: a chunk of one of its lines. The first part of a line has its
// name and labels.
struct TracePart {
  std::optional<TracedName> begins{};
  std::deque<CallLabel> labels{};
  std::vector<std::byte> chunk{};  // CallLog::chunk()
  bool is_last = false;            // of the rank

  static constexpr auto members() {
    using P = TracePart;
    return std::tuple(&P::begins, &P::labels, &P::chunk, &P::is_last);
  }
};

inline constexpr std::array kRoot{0};
// The question of a message that has no content.
inline Nothing no_content(int) { return {}; }

inline constexpr RankMessage<CountersAndExtra> kReport{0, "the report"};
inline constexpr RankMessage<State> kState{1, "the state of the run"};
inline constexpr RankMessage<Nothing, std::uint64_t> kHoldPoints{2, "the number of points begun"};
inline constexpr RankMessage<StopPoint> kStopPoint{3, "the stop point"};
inline constexpr RankMessage<SentModel, State, ReceivedModel> kMeasure{4, "a measurement"};
inline constexpr RankMessage<Nothing, std::span<const float>> kReplica{5, "the replica"};
inline constexpr RankMessage<std::vector<Index>, std::span<const float>> kRows{6, "the rows"};
inline constexpr RankMessage<Nothing> kJoin{7, "the return of a worker"};
inline constexpr RankMessage<std::optional<Settled>, Outcome> kSettle{8, "the end of a segment"};
inline constexpr RankMessage<WorkerFields> kFields{9, "the state of a worker"};
inline constexpr RankMessage<Nothing, TracePart> kTrace{10, "a part of the trace"};

}  // namespace hetsgd::rank_messages
