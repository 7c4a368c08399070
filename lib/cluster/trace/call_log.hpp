// The recorded calls of one process in compact form. A worker pays for them at every call,
// so noting one only copies a few numbers to the end of a chunk. It takes no lock, writes no text,
// and asks for memory once per chunk. Texts (category, name, group) are numbered once.
//
//   process --add()--> chunk | chunk | chunk ... --CallReader--> RecordedCall
//                              |
//                              full and the memory is full: to the file of CallMemory
//
// A call takes one cell, and a computation or a wait for a started call two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "cluster/trace/call_memory.hpp"
#include "core/non_copyable.hpp"
#include "core/units.hpp"

namespace hetsgd {

// The relation of a call to calls of other ranks.
enum class CallKind : std::uint8_t {
  none,
  collective,  // blocking: the group's `number`-th of this rank, splits included
  started,     // the same of those that are started; the call is the wait for it
  send,
  receive,
  sendrecv,
  service,
  monitor,  // a wait in a Monitor, or for its lock
  served,   // a request, as its service sees it
};

// A moment in the life of a process: after so many of its calls.
struct CallPoint {
  int rank = -1;            // of the process's worker; -1: no such moment
  int line = 0;             // TracedName::number of the process
  std::uint64_t calls = 0;  // calls of its line that had ended
  Seconds time{0};

  static constexpr auto members() {
    using P = CallPoint;
    return std::tuple(&P::rank, &P::line, &P::calls, &P::time);
  }
};

// A recorded call is what the next three structs say of it; RecordedCall is all of them.

// The part that is the same for all calls of one kind that a process makes.
struct CallLabel {
  std::string category{};  // compute, communicate, service, monitor, off_clock, served
  std::string name{};      // "step", "all_reduce", "service server", ...
  // "": all workers. A part has its group's name and "/NUMBER:COLOUR" of the split that made it.
  std::string group{};
  CallKind kind = CallKind::none;
  int rank = 0;  // of the process in the group

  bool operator==(const CallLabel&) const = default;
  static constexpr auto members() {
    using L = CallLabel;
    return std::tuple(&L::category, &L::name, &L::group, &L::kind, &L::rank);
  }
};

// The part that every call has for itself. Times are on the training clock; begin <= end.
struct CallCell {
  std::uint32_t label = 0;     // its number in the log
  std::uint32_t has_more = 0;  // a MoreOfCall follows in the log
  Seconds begin{0}, end{0};
  Seconds wait{0};            // part blocked for others; the rest of a message is transfer
  Seconds delay{0};           // delay of a computation at its end: stragglers and --speed
  std::uint64_t steps = 0;    // steps that the process had begun by its end
  std::uint64_t bytes = 0;    // bytes of the caller's data, both ways
  std::uint64_t samples = 0;  // batch size of a step
  std::uint64_t number = 0;   // collectives; requests: of this rank to the service
  int peer = -1;              // messages: rank in the group
  int tag = 0;
  // The moment that the end of the call depends on beside its begin. A wait for a started or posted
  // call: where that was started. A wait in a monitor: the notification that ended it. A served
  // request: `time` is that of its answer, and `calls` the place, in the service's line, of the
  // request that answered it.
  CallPoint cause{};
};

// The part that few calls have. It follows the cell of the call.
struct MoreOfCall {
  Work work{};  // of a computation, as stated to the endpoint
  // sim: its exact time and how long it had the device; 0 in real time.
  Seconds charged{0}, busy{0};
  // Started and posted calls, in the wait for them: when this rank's part could begin, and when it
  // was complete.
  Seconds since{0}, until{0};
  int is_split = 0, color = 0, key = 0;  // arguments of a split
};

// A call with all of its parts. It is a range of time on the clock, and often called so.
struct RecordedCall : CallLabel, CallCell, MoreOfCall {};

inline constexpr std::size_t kCallCell = 112;  // bytes
static_assert(sizeof(CallCell) <= kCallCell && sizeof(MoreOfCall) <= kCallCell);
static_assert(std::is_trivially_copyable_v<CallCell> && std::is_trivially_copyable_v<MoreOfCall>);

// Filled by one process alone. It is read when the run is over.
class CallLog : NonCopyable {
 public:
  explicit CallLog(CallMemory& memory) : memory_(memory) {}
  ~CallLog();

  // The number of a label. Equal labels have one number.
  std::uint32_t label(const CallLabel& label);
  const CallLabel& label(std::uint32_t number) const { return labels_[number]; }

  // Appends a call.
  void add(const CallCell& call) { put(call, nullptr); }
  void add(CallCell call, const MoreOfCall& more) {
    call.has_more = 1;
    put(call, &more);
  }
  // The same for a step, whose samples may follow.
  void add_step(CallCell call, const MoreOfCall& more);
  // Notes the samples of the last step, if there is one.
  void note_samples(std::uint64_t samples);

  // A call that is still changed. Its chunk stays in memory until it is closed.
  struct Open {
    std::size_t chunk = 0;
    CallCell* cell = nullptr;
  };
  Open open(const CallCell& call);
  void close(const Open& call);

  std::uint64_t calls() const { return calls_; }
  // Where the log is now, and back to there: what came since is left out.
  struct Mark {
    std::size_t chunks = 0, used = 0;
    std::uint64_t calls = 0;
  };
  Mark mark() const;
  void rewind(const Mark& mark);

  // The content in parts, for another process: the labels, then the chunks.
  const std::deque<CallLabel>& labels() const { return labels_; }
  std::size_t chunks() const { return chunks_.size(); }
  std::vector<std::byte> chunk(std::size_t number) const;
  // Appends a chunk that came from another process, whose labels are known here. Throws
  // Error(data), which names `what`, if it holds anything but whole calls with known labels.
  void append(std::span<const std::byte> chunk, std::string_view what);

 private:
  friend class CallReader;
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;  // null: in the file
    std::size_t room = 0, used = 0;      // bytes
    std::uint64_t place = 0;             // in the file
    int open = 0;                        // calls that are still changed
  };

  // Returns the place of the call's cell.
  std::byte* put(const CallCell& call, const MoreOfCall* more) {
    const std::size_t size = more != nullptr ? 2 * kCallCell : kCallCell;
    if (last_ == nullptr || last_->room - last_->used < size) begin_chunk();
    std::byte* const to = last_->bytes.get() + last_->used;
    new (to) CallCell(call);
    if (more != nullptr) new (to + kCallCell) MoreOfCall(*more);
    last_->used += size;
    ++calls_;
    return to;
  }
  void begin_chunk();
  // To the file, if memory is full and nothing in the chunk is open.
  void spill(Chunk& chunk);

  CallMemory& memory_;
  std::deque<CallLabel> labels_;
  std::deque<Chunk> chunks_;
  Chunk* last_ = nullptr;
  std::unique_ptr<std::byte[]> spare_;  // of the full size
  std::uint64_t calls_ = 0;
  std::optional<Open> last_step_;
};

// Reads the calls of a log in their order.
class CallReader {
 public:
  explicit CallReader(const CallLog& log) : log_(log) {}
  // False: there are no more. Throws Error(runtime) if the file cannot be read.
  bool next(RecordedCall& range);

 private:
  bool next_chunk();

  const CallLog& log_;
  std::size_t chunk_ = 0;  // the next one
  std::span<const std::byte> rest_;
  std::vector<std::byte> from_file_;
};

}  // namespace hetsgd
