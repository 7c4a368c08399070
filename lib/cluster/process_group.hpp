// ProcessGroup: the operating-system processes that carry out one command together, whichever
// cluster they belong to.
//
// A cluster whose workers share one process has the group of that process alone, which is this
// class itself: rank 0 of 1, and every agreement is with itself. A cluster whose workers are
// processes provides its own (processes_of in cluster.hpp). So nobody above cluster/ asks which
// cluster runs: it asks its group.
//
//   processes_of() --> joined --call_the_roll()--> agreed --leave()--> left
//                                                  |    ^
//                                  compare(), agree(),  a cluster's run()
//
// All processes make the same collective calls in the same order, from one thread each. From
// call_the_roll() on they watch each other's heartbeats: a process that is lost ends the others
// with an error and not with a hang.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/core_map.hpp"
#include "core/rank_index.hpp"
#include "core/units.hpp"

namespace hetsgd {

// Control: messages between the processes of a cluster whose ranks do not share memory, beside the
// training: on no breakdown, and not part of what an algorithm sees.

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
  // Called before the cluster's run(). Handlers run one at a time, on a thread of their own;
  // messages of a kind that has no handler yet wait for it. A handler must not block for long: its
  // thread also sends the heartbeats, and without them the other ranks take this one for lost.
  virtual void on_message(int kind, Handler handler) = 0;
  // The current run has failed: a message that somebody waits for may never come.
  virtual bool failing() const = 0;
};

// The facts that the processes of a run state before they do anything together, and the differences
// between them. Ranks that run another program, or with other options, would not understand each
// other.

// One thing that must be the same on all processes, as an error shows it. Processes send each other
// the bytes of its members.
struct Fact {
  std::string name;   // as a person would write it: "--hidden"
  std::string value;  // as the process has it: "8"
  // If this fact differs, the facts behind it say nothing: another algorithm has other options.
  bool decides_others = false;

  static constexpr auto members() {
    return std::tuple(&Fact::name, &Fact::value, &Fact::decides_others);
  }
};

// "--hidden is 8 on rank 0, 9 on ranks 1-2; --seed is 1 on ranks 0-1, 2 on rank 2": the first few
// differences between the processes, by rank. Empty: they are alike. by_rank is not empty; rank 0's
// facts say what is compared, and a fact that another rank lacks is "unknown" there.
std::string difference(const std::vector<std::vector<Fact>>& by_rank);

// How long processes wait by default for each other to come to the start, and later for a
// heartbeat.
inline constexpr Seconds kPeerTimeout{60};

// Where a process of a group runs.
struct ProcessPlace {
  int rank = 0;
  int local_rank = 0;  // among the processes of this host
  int local_size = 1;
  std::string host{};  // empty: the process is alone
  std::int64_t pid = 0;
  std::vector<int> cores{};  // cores that it may use, as the launcher has bound it
  int host_cores = 0;        // cores of the host that are online
  CoreOrder order{};         // `cores` in the order in which workers get them
  std::string topology{};    // of the host, as topology_text() has it

  static constexpr auto members() {
    using P = ProcessPlace;
    return std::tuple(&P::rank, &P::local_rank, &P::local_size, &P::host, &P::pid, &P::cores,
                      &P::host_cores, &P::order, &P::topology);
  }
};

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  // Places of all processes, by rank.
  virtual const std::vector<ProcessPlace>& places() const;
  virtual int rank() const { return 0; }
  int size() const { return static_cast<int>(places().size()); }
  // True on the process that writes files and reports for all.
  bool is_root() const { return rank() == 0; }
  const ProcessPlace& place() const { return places()[at(rank())]; }
  // Messages between the processes, beside the training. Null: the workers share the memory of one
  // process.
  virtual Control* control() { return nullptr; }

  // Collective, and the first thing that the processes do together: compares their facts. When not
  // all have come after `peer_timeout` the process ends itself, with a message that says which
  // processes are missing. From here on a process sends heartbeats often enough for that timeout,
  // and agreements wait so long for one. Throws what compare() throws.
  virtual void call_the_roll(const std::vector<Fact>& facts, Seconds peer_timeout);
  // Collective: the comparison alone, at any later point outside of a cluster's run(). Throws
  // Error(usage) if the processes differ, Error(runtime) if one of them is lost.
  virtual void compare(const std::vector<Fact>& facts);

  // Collective, outside of a cluster's run(): every process runs `prepare`, which returns nothing
  // or plain bytes of one size. When all have done so, every process returns the result of rank 0.
  // If `prepare` throws anywhere, every process throws the error of the lowest such rank; the text
  // names the rank, unless it is rank 0. Throws Error(runtime) if a process has sent no heartbeat
  // for the peer timeout.
  template <class Prepare>
  auto agree(Prepare&& prepare) {
    using Answer = std::remove_cvref_t<std::invoke_result_t<Prepare&>>;
    if constexpr (std::is_void_v<Answer>) {
      agree_on(prepare, {});
    } else {
      static_assert(std::is_trivially_copyable_v<Answer>);
      Answer answer{};
      agree_on([&] { answer = prepare(); }, std::as_writable_bytes(std::span(&answer, 1)));
      return answer;
    }
  }

  // The communication library of the processes, as it names itself; "": there is none.
  virtual std::string library() const { return ""; }
  // True: that library takes pointers to GPU memory.
  virtual bool takes_gpu_memory() const { return false; }
  // Sums `x` in place over all processes by the library's own all_reduce, for comparison with ours.
  // Every worker calls it, inside of a run.
  virtual void library_all_reduce(std::span<float> x);
  // The same for all_to_all (MPI_Alltoallv). Both buffers hold equal parts in the order of ranks,
  // fewer than 2^31 elements in all.
  virtual void library_all_to_all(std::span<const float> send, std::span<float> receive);

  // True: rank 0, which reports for all, has stopped sending heartbeats.
  virtual bool root_is_lost() const { return false; }
  // The last thing that a program does with its group: waits until all have come here, and returns
  // the exit code. A process may not be able to come any more: it was lost, or does not follow
  // within 10 s of an error. Then all of them are ended with the exit code instead. A program that
  // has not called it leaves in exit().
  virtual int leave(int exit_code) { return exit_code; }

 protected:
  virtual void agree_on(const std::function<void()>& prepare, std::span<std::byte> answer);
};

// True if a launcher (mpirun, srun, ...) started this process as one of several or as the only one.
// Read from the environment variables that launchers set: joins no group.
bool launched();
// The rank as the launcher says it in the environment; 0 where it does not.
int launched_rank();
// Environment variables that launchers set to the rank.
inline constexpr std::array kRankVariables = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                              "SLURM_PROCID"};

}  // namespace hetsgd
