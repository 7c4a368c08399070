#include "experiment/claim.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/output_file.hpp"
#include "training/record.hpp"

namespace hetsgd {
namespace {

using FileStatus = struct stat;

std::string owner_text() {
  return fmt::format("host {} pid {} since {}\n", host_name(), ::getpid(), utc_now());
}

std::string content_of_file(int file) {
  std::array<char, 1024> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

// Whether `path` still names the opened file. A released file is removed while others may have it
// open.
bool is_still_there(const std::string& path, int file) {
  FileStatus named{}, opened{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(file, &opened) == 0 &&
         named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

// The time since the file was touched, by the file server's clock; 0 if it cannot be determined.
Seconds silence_of(const std::string& path, int file) {
  FileStatus before{}, now{};
  const std::string probe = fmt::format("{}.{}.{}", path, host_name(), ::getpid());
  const int other = ::open(probe.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
  if (other < 0) return Seconds(0);
  const bool known = ::fstat(file, &before) == 0 && ::fstat(other, &now) == 0;
  ::close(other);
  ::unlink(probe.c_str());
  return Seconds(known ? static_cast<double>(now.st_mtime - before.st_mtime) : 0);
}

// Whether the owner of a file is dead, once this process has got the file's lock. The owner of an
// empty file is about to write its name.
bool is_left_behind(const std::string& path, int file) {
  constexpr Seconds kPause{10};
  const std::string owner = content_of_file(file);
  if (owner.starts_with(fmt::format("host {} pid ", host_name()))) return true;
  return silence_of(path, file) > (owner.empty() ? kPause : Claim::kSilence);
}

// Removes an existing file if its owner is dead, and returns whether the file is gone. If several
// hosts try at the same time, one succeeds in renaming it.
bool take_away(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return errno == ENOENT;
  bool gone = false;
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) {
    gone = !is_still_there(path, file);
    if (!gone && is_left_behind(path, file)) {
      const std::string aside = fmt::format("{}.{}.{}.old", path, host_name(), ::getpid());
      gone = ::rename(path.c_str(), aside.c_str()) == 0;
      if (gone) ::unlink(aside.c_str());
    }
  }
  ::close(file);
  return gone;
}

}  // namespace

std::optional<Claim> Claim::try_claim(const std::string& path) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (file < 0 && errno == ENOENT) {
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      continue;
    }
    if (file < 0 && errno == EEXIST) {
      if (take_away(path)) continue;
      return std::nullopt;
    }
    if (file < 0) throw write_error(ExitCode::runtime, path, "the lock", errno);
    Claim claim(path, file);
    while (::flock(file, LOCK_EX) != 0 && errno == EINTR) {  // others lock it briefly to check it
    }
    const std::string text = owner_text();
    const ssize_t written = ::pwrite(file, text.data(), text.size(), 0);
    if (written == static_cast<ssize_t>(text.size())) return claim;
    throw write_error(ExitCode::runtime, path, "the lock", errno);
  }
  return std::nullopt;
}

Claim::~Claim() { release(); }

Claim::Claim(Claim&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

Claim& Claim::operator=(Claim&& other) noexcept {
  if (this == &other) return *this;
  release();
  path_ = std::move(other.path_);
  file_ = std::exchange(other.file_, -1);
  return *this;
}

void Claim::touch() const { ::futimens(file_, nullptr); }

void Claim::release() {
  if (file_ < 0) return;
  ::unlink(path_.c_str());  // before the unlock, so that nobody locks a removed file
  ::close(file_);
  file_ = -1;
}

}  // namespace hetsgd
