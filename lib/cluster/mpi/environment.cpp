#include "cluster/mpi/environment.hpp"

#include <unistd.h>

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <thread>

#include "cluster/devices.hpp"
#include "cluster/mpi/channel.hpp"
#include "cluster/mpi/coordinator.hpp"
#include "cluster/mpi/start_watch.hpp"
#include "cluster/mpi/transport.hpp"
#include "core/byte_stream.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/logging.hpp"
#include "core/threads.hpp"

namespace hetsgd::mpi {

namespace {

// Time that the other ranks have to come to their end after an error.
constexpr Seconds kLeaveLimit{10};
// Time limit of the last messages and of MPI_Finalize once all ranks have come to their end.
constexpr Seconds kFinalizeLimit{20};

// Sets a flag while it lives.
class InLibrary {
 public:
  explicit InLibrary(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
  ~InLibrary() { flag_ = false; }

 private:
  std::atomic<bool>& flag_;
};

// Gathers bytes of any length from each rank, by rank. It uses MPI's own collectives, because the
// channel does not exist yet. A rank that misses it leaves the others waiting, which the StartWatch
// ends.
std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine, int size,
                                               MPI_Comm comm) {
  const auto n = static_cast<std::size_t>(size);
  const int bytes = static_cast<int>(mine.size());
  std::vector<int> lengths(n), begins(n);
  check(MPI_Allgather(&bytes, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm), "MPI_Allgather");
  std::exclusive_scan(lengths.begin(), lengths.end(), begins.begin(), 0);
  std::vector<std::byte> all(static_cast<std::size_t>(begins.back() + lengths.back()));
  check(MPI_Allgatherv(mine.data(), bytes, MPI_BYTE, all.data(), lengths.data(), begins.data(),
                       MPI_BYTE, comm),
        "MPI_Allgatherv");
  std::vector<std::vector<std::byte>> result;
  for (std::size_t i = 0; i < n; ++i) {
    const auto begin = all.begin() + begins[i];
    result.emplace_back(begin, begin + lengths[i]);
  }
  return result;
}

}  // namespace

void check(int code, std::string_view call) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw runtime_failure("{} failed: {}", call, text);
}

Environment& Environment::get(Seconds peer_timeout) {
  // The object is never destroyed: its threads and MPI's may be in use until the process ends. A
  // program that ends by exit() still leaves its group: the other ranks would miss this one
  // otherwise.
  static Environment& instance = *[peer_timeout] {
    static Environment* const made = new Environment(peer_timeout);
    std::atexit([] { made->leave(made->failed_ ? 1 : 0); });
    return made;
  }();
  return instance;
}

Environment::Environment(Seconds peer_timeout) {
  const StartWatch watch(peer_timeout);
  // With more ranks than cores Open MPI gives its core away in every look for a message, ours too.
  // Waits here have a way of their own (realtime/waiting.hpp), which sleeps in the end. Where
  // another program computes, a core that is given away comes back only after one of its time
  // slices, and a look for a message takes milliseconds. A value that the user has set is kept.
  setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    refuse("--cluster mpi",
           fmt::format("an MPI library with thread level {}",
                       provided == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                       : provided == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                                         : "MPI_THREAD_SINGLE"),
           "MPI_THREAD_MULTIPLE",
           "use a library built with thread support; some offer it if MPICH_ASYNC_PROGRESS or "
           "I_MPI_THREAD_LEVEL_DEFAULT is set",
           ExitCode::device);
  }
  // The error handler is inherited by every communicator that is made from it: errors come back as
  // codes, which check() turns into exceptions.
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  // The places come first: the coordinator names hosts in its errors. The hook and the handlers
  // refer to the coordinator, so the channel starts last, when all handlers are registered.
  gather_places();
  check(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
  channel_ = std::make_unique<Channel>(control_);
  coordinator_ = std::make_unique<Coordinator>(*channel_, places_);
  Sends::get().on_unfinished([this] { channel_->look(); });
  channel_->start(
      [this] {
        abort_if_library_waits_for_lost();
        return coordinator_->tick();
      },
      [this](std::exception_ptr error) { coordinator_->fail(std::move(error)); });
}

Environment::~Environment() = default;

void Environment::gather_places() {
  ProcessPlace place;
  int size = 1;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  MPI_Comm local;
  // The ranks that share memory are those of one host, in the order of ranks.
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local),
        "MPI_Comm_split_type");
  check(MPI_Comm_rank(local, &place.local_rank), "MPI_Comm_rank");
  check(MPI_Comm_size(local, &place.local_size), "MPI_Comm_size");
  check(MPI_Comm_free(&local), "MPI_Comm_free");
  place.rank = rank_;
  place.host = host_name();
  place.pid = getpid();
  place.host_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  place.cores = available_cores();
  place.order = machine_cores().in_order(place.cores);
  place.topology = topology_text(machine_cores().topology());
  for (const auto& bytes : all_gather(to_bytes(place), size, MPI_COMM_WORLD)) {
    places_.push_back(from_bytes<ProcessPlace>(bytes, "the place of a rank"));
  }
}

Control* Environment::control() { return channel_.get(); }

// --- what all agree on

void Environment::agree_on(const std::function<void()>& prepare, std::span<std::byte> answer) {
  // An error here must not end this rank alone: the others would wait for its answer.
  std::exception_ptr error;
  try {
    prepare();
  } catch (...) {
    error = std::current_exception();
  }
  std::optional<Failure> failure;
  if (error) failure = Failure::of(error, rank_, is_root() ? 1 : size());
  // On rank 0 the text does not name the rank: it reads as the error of a single process would.
  const auto agreement = coordinator_->agree(answer, failure, peer_timeout_);
  if (agreement.failed < 0) {
    HETSGD_CHECK_EQ(agreement.answer.size(), answer.size());
    std::ranges::copy(agreement.answer, answer.begin());
    return;
  }
  failed_ = true;
  if (error && agreement.failed == 0 && is_root()) std::rethrow_exception(error);  // as it was
  std::rethrow_exception(agreement.failure.exception());
}

void Environment::compare_within(const std::vector<Fact>& facts, Seconds peer_timeout) {
  // Two agreements: in the first rank 0 gets the facts of all, in the second it tells all what it
  // has found in them. On the other ranks `answers` is empty, and they find nothing.
  const auto agreement = coordinator_->agree(to_bytes(facts), std::nullopt, peer_timeout);
  if (agreement.failed >= 0) {
    failed_ = true;
    std::rethrow_exception(agreement.failure.exception());
  }
  agree([&] {
    std::vector<std::vector<Fact>> by_rank;
    for (const auto& bytes : agreement.answers) {
      by_rank.push_back(from_bytes<std::vector<Fact>>(bytes, "the facts of a rank"));
    }
    const std::string text = by_rank.empty() ? "" : difference(by_rank);
    if (text.empty()) return;
    throw with_hint(usage_error("the ranks differ: {}", text),
                    "start every rank with the same program, options, HETSGD_ variables and files");
  });
}

void Environment::compare(const std::vector<Fact>& facts) { compare_within(facts, peer_timeout_); }

void Environment::call_the_roll(const std::vector<Fact>& facts, Seconds peer_timeout) {
  const StartWatch watch(peer_timeout);
  peer_timeout_ = peer_timeout;
  // The interval is set before the comparison: other ranks may begin to watch this one as soon as
  // that is over.
  channel_->beat_within(peer_timeout);
  // The timeout is not less than the default: that a rank has come says nothing of how often it
  // sends heartbeats so far.
  compare_within(facts, std::max(peer_timeout, kPeerTimeout));
}

// --- the library

std::string Environment::library() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}

bool Environment::takes_gpu_memory() const {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

void Environment::abort_if_library_waits_for_lost() const {
  const std::optional<Failure> loss = coordinator_->loss();
  if (!loss || !in_library_) return;
  if (!is_root()) start_log(detect_terminal());  // rank 0 may be the lost one
  log(LogLevel::error, fmt::format("{}\nhint: {}", loss->text, loss->hint));
  MPI_Abort(MPI_COMM_WORLD, loss->code);
}

void Environment::library_all_reduce(std::span<float> x) {
  const InLibrary in(in_library_);
  constexpr std::size_t kMost = std::size_t{1} << 30;  // counts are ints
  for (std::size_t at = 0; at < x.size(); at += kMost) {
    const auto part = x.subspan(at, std::min(kMost, x.size() - at));
    MPI_Allreduce(MPI_IN_PLACE, part.data(), static_cast<int>(part.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }
}

void Environment::library_all_to_all(std::span<const float> send, std::span<float> receive) {
  constexpr std::size_t kMost = std::numeric_limits<int>::max();
  if (send.size() > kMost) {
    throw usage_error("MPI_Alltoallv: found {} elements, expected at most {}", send.size(), kMost);
  }
  const InLibrary in(in_library_);
  const std::vector<int> counts(places_.size(), static_cast<int>(send.size() / places_.size()));
  std::vector<int> first(counts.size(), 0);
  std::partial_sum(counts.begin(), counts.end() - 1, first.begin() + 1);
  MPI_Alltoallv(send.data(), counts.data(), first.data(), MPI_FLOAT, receive.data(), counts.data(),
                first.data(), MPI_FLOAT, MPI_COMM_WORLD);
}

// --- the end

bool Environment::root_is_lost() const { return coordinator_->root_is_lost(); }

int Environment::leave(int exit_code) {
  // exit() comes here once more, after main() has left.
  if (left_) return exit_code;
  left_ = true;
  const bool failed = failed_ || exit_code != 0;
  // Without an error nobody is given up as long as heartbeats come: a rank may write its results
  // for long.
  const bool together =
      coordinator_->leave(failed ? std::optional<Seconds>(kLeaveLimit) : std::nullopt);
  if (!together) {
    // It ends all processes of the job, this one too.
    MPI_Abort(MPI_COMM_WORLD, exit_code != 0 ? exit_code : static_cast<int>(ExitCode::runtime));
  }
  // All have come, so nobody watches anybody any more. A rank that stands still now, or a library
  // that hangs in its own end, must not hang the job. The thread ends with the process. Where the
  // system starts no more threads, the job does without it.
  try {
    start_thread<std::thread>("the end of the run", [exit_code] {
      std::this_thread::sleep_for(kFinalizeLimit);
      _exit(exit_code);
    }).detach();
  } catch (const Error&) {
  }
  // The channel's thread must have ended before MPI_Finalize, as it calls MPI.
  channel_->stop();
  MPI_Finalize();
  return exit_code;
}

}  // namespace hetsgd::mpi
