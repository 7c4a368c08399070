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
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "training/record.hpp"

namespace hetsgd {

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
