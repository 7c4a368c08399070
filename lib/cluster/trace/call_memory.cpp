#include "cluster/trace/call_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "core/error.hpp"
#include "core/logging.hpp"

namespace hetsgd {
namespace {

std::string reason(int error_number) { return std::generic_category().message(error_number); }

}  // namespace

CallMemory::~CallMemory() {
  if (file_ >= 0) ::close(file_);
}

void CallMemory::give_up(const char* doing, int error_number) {
  if (failed_.exchange(true)) return;
  warn("{}: cannot {} the temporary file of the record: {}; the record stays in memory",
       options_.folder, doing, reason(error_number));
}

bool CallMemory::open() {
  const std::lock_guard lock(mutex_);
  if (file_ >= 0) return true;
  if (failed_) return false;
  std::string name = options_.folder + "/.hetsgd-record-XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) {
    give_up("create", errno);
    return false;
  }
  ::unlink(name.c_str());
  file_ = file;
  return true;
}

std::optional<std::uint64_t> CallMemory::write(std::span<const std::byte> bytes) {
  if (failed_ || !open()) return std::nullopt;
  const std::uint64_t place = size_.fetch_add(bytes.size());
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n =
        ::pwrite(file_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(place + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      give_up("write", n < 0 ? errno : ENOSPC);
      return std::nullopt;
    }
    done += static_cast<std::size_t>(n);
  }
  return place;
}

void CallMemory::read(std::uint64_t place, std::span<std::byte> bytes) const {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n =
        ::pread(file_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(place + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      throw runtime_failure("{}: cannot read the temporary file of the record: {}", options_.folder,
                            n < 0 ? reason(errno) : "it ends too early");
    }
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace hetsgd
