// The messages between the clients of the ranks, with one definition each that states the content.
// Part of rank_client.
//
//   message      from -> to         handled by
//   kReport      rank -> 0          absorb()
//   kState       0 -> others        take()
//   kHalt        0 -> all           halting; answers kStand
//   kStand       all -> 0           on_stand()
//   kStopPoint   0 -> all           stops_here() goes on
//   kModel       rank -> 0          on_model(): measures
//   kMeasured    0 -> that rank     evaluate_alone() goes on
//   kAskReplica  rank -> all        answers kReplica
//   kReplica     all -> that rank   mean_of_published() goes on
//   kAskRows     0 -> all           answers kRows
//   kRows        all -> 0           gather_rows() goes on
//   kAskTrace    0 -> rank          gather() goes on: answers kTrace
//   kTrace       rank -> 0          gather() goes on
//   kEnd         0 -> all           await_end() returns
//   kJoin        rank -> 0          end_for_joiners()
//   kSettled     rank -> 0          settle() goes on, and rank 0 decides
//   kOutcome     0 -> all           settle() returns
//   kFields      rank -> others     share_state() returns
//
// Malformed bytes are an Error(data) that names the message and the rank. Both ends run the same
// program, so it is a fault of the program or of the network.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "cluster/trace/trace.hpp"
#include "core/byte_stream.hpp"
#include "training/client.hpp"
#include "training/referee.hpp"

namespace hetsgd {

// Elements that are never moved: a count and then the elements.
template <>
struct ByteForm<std::deque<CallLabel>> : detail::ByteSequence<CallLabel, std::deque<CallLabel>> {};

}  // namespace hetsgd

namespace hetsgd::rank_messages {

struct Nothing {
  static constexpr auto members() { return std::tuple<>(); }
};

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
  double accuracy = 0;        // of the point at `measured`; NaN: there is none
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

// A worker at the end of a segment, where workers may be lost. Plain bytes.
struct Settled {
  std::int32_t worker = 0;
  std::int32_t has_state = 0;  // it has kept the algorithm's state
  Client::Unsettled samples{};
};

// How such a segment has ended.
struct Outcome {
  std::uint8_t follows = 0;
  std::vector<Settled> workers{};
  std::vector<SentField> known{};  // Referee::known

  static constexpr auto members() {
    return std::tuple(&Outcome::follows, &Outcome::workers, &Outcome::known);
  }
};

// The fields that workers have in common, and the own ones of the worker that sends them.
struct WorkerFields {
  std::vector<SentField> common{}, own{};

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

// The place of a message behind RankClient's first kind of control messages, and its name in
// errors. A span is received as a vector.
template <class Sent_, class Received_ = typename ByteForm<Sent_>::Stored>
struct Message {
  using Sent = Sent_;
  using Received = Received_;
  int place;
  const char* name;
};

inline constexpr Message<CountersAndExtra> kReport{0, "the report"};
inline constexpr Message<State> kState{1, "the state of the run"};
inline constexpr Message<Nothing> kHalt{2, "the halt"};
inline constexpr Message<std::uint64_t> kStand{3, "the number of points begun"};
inline constexpr Message<StopPoint> kStopPoint{4, "the stop point"};
inline constexpr Message<SentModel, ReceivedModel> kModel{5, "the model"};
inline constexpr Message<State> kMeasured{6, "the end of a measurement"};
inline constexpr Message<Nothing> kAskReplica{7, "the question for a replica"};
inline constexpr Message<std::span<const float>> kReplica{8, "the replica"};
inline constexpr Message<std::vector<Index>> kAskRows{9, "the places of rows"};
inline constexpr Message<std::span<const float>> kRows{10, "the rows"};
inline constexpr Message<TracePart> kTrace{11, "a part of the trace"};
inline constexpr Message<std::uint8_t> kEnd{12, "the end of a segment"};
inline constexpr Message<Nothing> kJoin{13, "the return of a worker"};
inline constexpr Message<Settled> kSettled{14, "what a worker leaves"};
inline constexpr Message<Outcome> kOutcome{15, "the outcome of a segment"};
inline constexpr Message<WorkerFields> kFields{16, "the state of a worker"};
inline constexpr Message<Nothing> kAskTrace{17, "the question for a part of the trace"};
// The next run of the process takes the kinds behind these, so that a late message of one run
// cannot reach another.
inline constexpr int kMessages = 18;

}  // namespace hetsgd::rank_messages
