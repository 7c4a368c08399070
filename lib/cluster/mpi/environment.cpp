#include "cluster/mpi/environment.hpp"

#include <unistd.h>

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cluster/mpi/channel.hpp"
#include "cluster/mpi/coordinator.hpp"
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

void all_gather(const void* mine, int bytes, void* all, MPI_Comm comm) {
  check(MPI_Allgather(mine, bytes, MPI_BYTE, all, bytes, MPI_BYTE, comm), "MPI_Allgather");
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
  constexpr std::size_t kMaxCores = 1024;
  struct Entry {
    int local_rank, local_size, host_cores, cores_count;
    std::int64_t pid;
    char host[256];
    std::array<int, kMaxCores> cores;
  };
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &rank_.size), "MPI_Comm_size");
  MPI_Comm local;
  check(
      MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_.rank, MPI_INFO_NULL, &local),
      "MPI_Comm_split_type");
  Entry mine{};
  check(MPI_Comm_rank(local, &mine.local_rank), "MPI_Comm_rank");
  check(MPI_Comm_size(local, &mine.local_size), "MPI_Comm_size");
  check(MPI_Comm_free(&local), "MPI_Comm_free");
  gethostname(mine.host, sizeof mine.host - 1);
  mine.pid = getpid();
  mine.host_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const auto cores = threads::available_cores();
  mine.cores_count = static_cast<int>(std::min(cores.size(), kMaxCores));
  std::copy_n(cores.begin(), mine.cores_count, mine.cores.begin());
  std::vector<Entry> all(static_cast<std::size_t>(rank_.size));
  all_gather(&mine, sizeof mine, all.data(), MPI_COMM_WORLD);
  for (const Entry& entry : all) {
    ranks_.push_back({.rank = static_cast<int>(ranks_.size()),
                      .size = rank_.size,
                      .local_rank = entry.local_rank,
                      .local_size = entry.local_size,
                      .host = entry.host,
                      .pid = entry.pid,
                      .cores = {entry.cores.begin(), entry.cores.begin() + entry.cores_count},
                      .host_cores = entry.host_cores});
  }
  rank_ = ranks_[static_cast<std::size_t>(rank_.rank)];
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
