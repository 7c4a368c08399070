#include "cluster/mpi/environment.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

#include "cluster/mpi/channel.hpp"
#include "cluster/mpi/coordinator.hpp"
#include "cluster/mpi/rank_bytes.hpp"
#include "cluster/mpi/start_watch.hpp"
#include "cluster/mpi/transport.hpp"
#include "cluster/threads/devices.hpp"
#include "core/error.hpp"

namespace hetsgd {

namespace {

std::atomic<mpi::Environment*> environment{nullptr};

}  // namespace

const MpiRank& mpi_rank() { return mpi::Environment::get().rank(); }
const std::vector<MpiRank>& mpi_ranks() { return mpi::Environment::get().ranks(); }
Control& mpi_control() { return mpi::Environment::get().channel(); }

bool mpi_cuda_aware() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  mpi::Environment::get();
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

std::string mpi_library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  return text;
}

void mpi_native_all_reduce(std::span<float> x) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // counts are ints
  for (std::size_t at = 0; at < x.size(); at += kMost) {
    const auto part = x.subspan(at, std::min(kMost, x.size() - at));
    MPI_Allreduce(MPI_IN_PLACE, part.data(), static_cast<int>(part.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }
}

double mpi_agree(const std::function<double()>& prepare, Seconds peer_timeout) {
  mpi::Environment& here = mpi::Environment::get();
  double answer = 0;
  std::exception_ptr error;
  try {
    answer = prepare();
  } catch (...) {
    error = std::current_exception();
  }
  const int rank = here.rank().rank;
  std::optional<mpi::Failure> failure;
  if (error) failure = mpi::Failure::of(error, rank, rank == 0 ? 1 : here.rank().size);
  const auto agreement = here.coordinator().agree(answer, failure, peer_timeout);
  if (agreement.failed < 0) return agreement.answer;
  here.note_failure();
  if (error && agreement.failed == 0 && rank == 0)
    std::rethrow_exception(error);  // as it was thrown
  std::rethrow_exception(agreement.failure.exception());
}

void mpi_compare(const std::vector<Fact>& facts, Seconds peer_timeout) {
  mpi::Environment& here = mpi::Environment::get();
  const auto agreement = here.coordinator().agree(0, std::nullopt, peer_timeout, pack(facts));
  if (agreement.failed >= 0) {
    here.note_failure();
    std::rethrow_exception(agreement.failure.exception());
  }
  mpi_agree(
      [&] {
        std::vector<std::vector<Fact>> by_rank;
        for (const auto& bytes : agreement.said) by_rank.push_back(unpack_facts(bytes));
        const std::string text = by_rank.empty() ? "" : difference(by_rank);
        if (text.empty()) return 0.0;
        throw with_hint(usage_error("the ranks are not alike: {}", text),
                        "start every rank with the same program, options, HETSGD_ variables and "
                        "files");
      },
      peer_timeout);
}

void mpi_call_the_roll(const std::vector<Fact>& facts, Seconds start_timeout,
                       Seconds peer_timeout) {
  const mpi::StartWatch watch(start_timeout);
  mpi::Environment::get().channel().beat_within(peer_timeout);
  // Who has come says nothing of how often the others give signs of life so far.
  mpi_compare(facts, std::max(start_timeout, peer_timeout));
}

bool mpi_root_is_lost() {
  mpi::Environment* const here = environment;
  return here && here->coordinator().root_is_lost();
}

int leave_mpi(int exit_code) {
  mpi::Environment* const here = environment;
  return here ? here->leave(exit_code) : exit_code;
}

namespace mpi {

namespace {

// After an error the others have so long to come to their end.
constexpr Seconds kLeaveLimit{10};
// MPI's own end, when all have come to it.
constexpr Seconds kFinalizeLimit{20};

// Of any length, by rank.
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

std::string host_name() {
  utsname system{};
  ::uname(&system);
  return system.nodename;
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

Environment& Environment::get() {
  // Never destroyed: its threads and MPI's may be in use until the process ends.
  static Environment& instance = *[] {
    auto* made = new Environment;
    environment = made;
    std::atexit([] { environment.load()->leave(environment.load()->failed_ ? 1 : 0); });
    return made;
  }();
  return instance;
}

Environment::Environment() {
  const StartWatch watch(kStartTimeout);
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    throw with_hint(
        device_error("--cluster mpi: found an MPI library with thread level {}, expected "
                     "MPI_THREAD_MULTIPLE",
                     provided == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                     : provided == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED"
                                                       : "MPI_THREAD_SINGLE"),
        "use a library built with thread support; with MPICH_ASYNC_PROGRESS or "
        "I_MPI_THREAD_LEVEL_DEFAULT some give more");
  }
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  gather_ranks();
  check(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
  channel_ = std::make_unique<Channel>(control_);
  coordinator_ = std::make_unique<Coordinator>(*channel_, ranks_);
  Sends::get().on_unfinished([this] { channel_->look(); });
  channel_->start([this] { return coordinator_->tick(); },
                  [this](std::exception_ptr error) { coordinator_->fail(std::move(error)); });
}

Environment::~Environment() = default;

void Environment::gather_ranks() {
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &rank_.size), "MPI_Comm_size");
  MPI_Comm local;
  check(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_.rank, MPI_INFO_NULL, &local),
      "MPI_Comm_split_type");
  check(MPI_Comm_rank(local, &rank_.local_rank), "MPI_Comm_rank");
  check(MPI_Comm_size(local, &rank_.local_size), "MPI_Comm_size");
  check(MPI_Comm_free(&local), "MPI_Comm_free");
  rank_.host = host_name();
  rank_.pid = getpid();
  rank_.host_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  rank_.cores = threads::available_cores();
  for (const auto& bytes : all_gather(pack(rank_), rank_.size, MPI_COMM_WORLD)) {
    ranks_.push_back(unpack_rank(bytes));
  }
}

int Environment::leave(int exit_code) {
  if (left_) return exit_code;
  left_ = true;
  const bool failed = failed_ || exit_code != 0;
  const bool together =
      coordinator_->leave(failed ? std::optional<Seconds>(kLeaveLimit) : std::nullopt);
  if (!together) {
    MPI_Abort(MPI_COMM_WORLD, exit_code != 0 ? exit_code : static_cast<int>(ExitCode::runtime));
  }
  channel_->stop();
  std::thread([exit_code] {
    std::this_thread::sleep_for(kFinalizeLimit);
    _exit(exit_code);
  }).detach();
  MPI_Finalize();
  return exit_code;
}

}  // namespace mpi
}  // namespace hetsgd
