// The timeline of a run: every blocking call of every process, with what it depended on. `hetsgd
// train --record-timeline` writes it; `train --replay` reads it, and `hetsgd retime` for `hetsgd
// replay` and `hetsgd fit`.
//
// The file is JSON Lines, compressed by zstd unless its name ends in .jsonl:
//
//   {"hetsgd_timeline":1,"config":{...},"clock_resolution_s":0,"processes":[...],...}   header,
//                                                                    if any with "lost_workers":2
//   {"p":0,"c":"compute","n":"step","e":0.012,"s":1,"W":[4e7,1e8,9]}     a call of process 0
//   ...                                                                   by their ends
//   {"lines":4711}                                                        the end
//
// Keys of a call; one that is missing is 0, empty or none:
//
//   p  place of its process in the header's `processes`
//   c  category: compute, communicate, service, monitor, off_clock, served
//   n  name: step, all_reduce, "service server", ...
//   b  begin, seconds on the training clock; missing: the end of the process's call before
//   e  end; missing: begin + q
//   w  part of it that was blocked for others
//   d  delay of a computation by stragglers and --speed. Its own time is e - b - w - d.
//   s  steps that the process had begun; missing: as in its call before
//   y  bytes of the caller's data
//   m  samples of a step
//   W  work of a computation: operations, bytes, launches, learners, host_link_bytes, gather_bytes,
//      host_gather_bytes, given_s; zeros at the end are left out
//   q, v  sim: exact time of a computation with its delay, and how long it had the device; v is
//      missing where it is q - d, and v 0 where it is q
//   k  relation to calls of other processes: collective, started, send, receive, sendrecv, service,
//      monitor, served
//   g  group, "" for all workers; i  number of the collective or request; r  rank in the group;
//   o  peer; t  tag; x  [color, key] of a split
//   f, u  in a wait for a started or posted call: since when it could go on, and until when it did
//   a  [rank, line, calls, time]: what else its end depended on (CallCell::cause)
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cluster/trace/trace.hpp"
#include "training/record.hpp"

namespace hetsgd {

inline constexpr int kTimelineVersion = 1;

struct Timeline {
  std::string path;  // opens messages
  // The run, as the header describes it. `config` is {} for step times of other tools. Profiles and
  // network are null in real time, as in a result.
  nlohmann::json config = nlohmann::json::object();
  std::string cluster = {};
  bool virtual_time = true;
  Seconds clock_resolution{0};               // 0: times are exact
  std::vector<std::string> stragglers = {};  // injected, with their defaults
  nlohmann::json device_profile = {}, server_profile = {}, network = {}, charge = {};
  int workers = 0;
  std::size_t lost_workers = 0;  // failures of workers in the run
  Seconds elapsed{0};            // training clock at the end
  // The processes, by rank, the worker itself before its background tasks; and the services.
  std::vector<TraceLine> processes = {}, services = {};
  // The file was cut off, and this is what it had up to its last whole round.
  bool cut = false;

  // The worker's own process. There is one for each rank (checked by the reader).
  const TraceLine& main_of(int rank) const;
  // The name of the algorithm; "" for step times of other tools.
  std::string algorithm() const;
};

// Writes the calls in `trace`, which has TraceDetail::causes, of the run in `record`. Times of a
// real clock are rounded to its resolution. Throws Error(runtime) if the file cannot be written.
void write_timeline(const std::string& path, const Trace& trace, const Record& record);

// Reads a timeline, or a CSV file of step times (read_step_times); the first byte tells them apart.
// Throws Error(data), "FILE:LINE: ...", that says what was found and what was expected: no
// timeline, another version, keys or values that are wrong, lines that are not in the order of
// their ends, a process that the header does not name. A file that is cut off gives the calls up to
// the end of the last round of all workers; without such a round it is an error. `columns` are
// those of read_step_times; a timeline has none.
Timeline read_timeline(const std::string& path, const std::string& columns = "");

// Step times of another tool, lines `worker,step,seconds` after that header (core/csv.hpp; workers
// and steps count from 0, in any order, without gaps; at most 4,096 workers, since a replay takes
// time by their square). Every step is followed by a barrier of all workers without a cost, as in
// synchronous training. Warns of steps of 0 s. `columns`: the names of these three in a file of
// another tool, "rank,iteration,step_ms", among others in any order; the last one ends with its
// unit. Throws Error(data) as above, and if all take 0 s. Throws Error(usage) for a name without a
// unit.
Timeline read_step_times(const std::string& path, std::string_view text,
                         const std::string& columns = "");

}  // namespace hetsgd
