#include "experiment/claim.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "core/error.hpp"
#include "core/output_file.hpp"
#include "training/record.hpp"

namespace hetsgd {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string owner_text() {
  return fmt::format("host {} pid {} since {}\n", host_name(), ::getpid(), utc_now());
}

std::string content_of_file(int file) {
  std::array<char, 1024> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

// A released file is removed while others may still have it open.
bool is_still_there(const std::string& path, int file) {
  struct stat named {
  }, opened{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(file, &opened) == 0 &&
         named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

// Whether the file's owner, of another host, was silent for too long, by the file server's clock.
bool is_silent(const std::string& path, int file) {
  struct stat before {
  }, now{};
  const std::string probe = fmt::format("{}.{}.{}", path, host_name(), ::getpid());
  const int other = ::open(probe.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
  if (other < 0) return false;
  const bool known = ::fstat(file, &before) == 0 && ::fstat(other, &now) == 0;
  ::close(other);
  ::unlink(probe.c_str());
  return known && Seconds(static_cast<double>(now.st_mtime - before.st_mtime)) > Claim::kSilence;
}

}  // namespace

std::optional<Claim> Claim::try_claim(const std::string& path) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    int file = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (file < 0 && errno == ENOENT) {
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      continue;
    }
    if (file < 0) throw write_error(ExitCode::runtime, path, "the lock", errno);
    Claim claim(path, file);
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      claim.file_ = -1;  // another's: not to be removed
      ::close(file);
      return std::nullopt;
    }
    if (!is_still_there(path, file)) {
      claim.file_ = -1;
      ::close(file);
      continue;
    }
    const std::string owner = content_of_file(file);
    const bool foreign =
        !owner.empty() && !owner.starts_with(fmt::format("host {} pid ", host_name()));
    if (foreign && !is_silent(path, file)) {
      claim.file_ = -1;
      ::close(file);
      return std::nullopt;
    }
    const std::string text = owner_text();
    const bool written = ::ftruncate(file, 0) == 0 && ::pwrite(file, text.data(), text.size(), 0) ==
                                                          static_cast<ssize_t>(text.size());
    if (!written) throw write_error(ExitCode::runtime, path, "the lock", errno);
    return claim;
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
  ::unlink(path_.c_str());  // before the lock goes: nobody can lock what is then removed
  ::close(file_);
  file_ = -1;
}

}  // namespace hetsgd
