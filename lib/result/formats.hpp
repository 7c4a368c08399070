// Files of a run in the formats of other tools: the log of an MLPerf submission (mllog.cpp), ranges
// for Chrome's and Perfetto's trace viewers (trace.cpp), the curve for TensorBoard
// (event_file.cpp).
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cluster/trace/trace.hpp"
#include "training/record.hpp"

namespace hetsgd {

// --- --mllog ------------------------------------------------------------------------------------
// --mllog writes a run as the log of an MLPerf submission, for tools that read such logs. The
// format is that of mlcommons/logging (README; mllog/constants.py has the keys). It has lines such
// as
//
//   :::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "POINT_IN_TIME",
//             "key": "seed", "value": 1, "metadata": {}}
//
//   submission_benchmark .. opt_base_learning_rate   the configuration of the run
//   init_start, init_stop, run_start                 the first reading of the training data: what
//                                                    MLPerf does before it, hetsgd does not
//   eval_start, eval_stop, eval_accuracy             per evaluation, the initial one too
//   block_start, block_stop                          the training between two evaluations
//   run_stop                                         the last evaluation's end, metadata.status
//                                                    success (all targets, or the whole budget
//                                                    where there is none) or aborted
//
// time_ms is the host's Unix time, so in a real run eval_accuracy is mlperf_s (RunClock) after
// run_start. In sim it is the time of the first reading of the data, plus simulated time. Loading
// and measuring take no simulated time, so differences are those of the training clock.

// The whole log of a run that has ended, in order of time. global_batch_size is the mean number of
// samples per model update (one worker's batch if replicas or a server apply every gradient alone).
// eval_accuracy is the most informative metric for the data; its metadata have the metric's name.
std::string mllog_text(const Record& record);

// --- --trace ------------------------------------------------------------------------------------
// --trace writes the ranges of a run to a file that Chrome's and Perfetto's trace viewers open.

// The document in the Trace Event Format. It has complete events ("ph": "X") with ts and dur in
// microseconds of the run's clock. There is one thread per worker and background task, in the order
// of Trace::lines(). The args name iteration (of the process's own steps), batch (samples), bytes,
// wait and transfer, and the process that was waited for. A range contains slices for its wait
// (category "wait") and its injected delay ("delay"). Flow events ("s", "f") lead from a message's
// send to its receive.
nlohmann::json trace_json(const Trace& trace);

// --- --tensorboard ------------------------------------------------------------------------------
// --tensorboard: the curve of a run while it goes on, as an event file of TensorBoard.
//
// Format. The file is a sequence of TFRecords (TensorFlow, core/lib/io/record_writer.h): length as
// uint64, masked CRC32C of these 8 bytes, `length` bytes, masked CRC32C of them; all little-endian,
// and masked(c) = (c rotated right by 15 bits) + 0xa282ead8. Each record holds an Event in
// protobuf's wire format, with these fields (tensorflow/core/util/event.proto,
// framework/summary.proto):
//
//   Event    1 wall_time: double   2 step: int64   3 file_version: string, "brain.Event:2", of the
//            first event           5 summary: Summary
//   Summary  1 value: Value, repeated              Value  1 tag: string   2 simple_value: float

// An event in wire format, and the TFRecord around some bytes.
std::string scalar_event(double wall_time, std::int64_t step,
                         const std::vector<std::pair<std::string, double>>& scalars);
std::string framed(const std::string& data);

// Appends the points of a record that it has not written yet, and flushes them, so that a viewer
// follows the run. Per point, with the samples learnt from as the step: train/loss, the test
// metrics, learning_rate (of a batch of b_max), samples_per_s (training clock, since the point
// before). wall_time is the host's Unix time. In sim it is the time of the first reading of the
// training data, plus simulated time. Not thread-safe. An error does not end the run; check()
// throws it.
class EventFile {
 public:
  // `learning_rate` gives the learning rate at an epoch. Replaces the file `path`. Throws
  // Error(runtime) if it cannot be made.
  EventFile(std::string path, std::function<double(double epoch)> learning_rate);

  void write(const Record& record);
  void check() const;

 private:
  void append(const std::string& event);

  const std::string path_;
  const std::function<double(double)> learning_rate_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::size_t written_ = 0;  // number of points written
  int error_ = 0;            // errno of the first failed write
};

}  // namespace hetsgd
