#include "data/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.hpp"

namespace hetsgd {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)) {
  struct stat status {};
  const bool exists = stat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    fail("cannot write the file");
  }
  if (exists && !S_ISREG(status.st_mode)) {
    file_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    // Two writers of one path, in one process or several, must not share a temporary file.
    static std::atomic<unsigned> serial{0};
    temporary_ = fmt::format("{}.{}-{}.tmp", path_, getpid(), serial++);
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (file_ < 0) fail("cannot write the file");
  buffer_.reserve(kBufferBytes);
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  close(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() > kBufferBytes) {
    write_out(bytes);
  } else {
    buffer_.append(bytes.data(), bytes.size());
  }
}

void OutputFile::flush() {
  write_out(buffer_);
  buffer_.clear();
}

void OutputFile::write_out(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(file_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("cannot write the file");
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
}

void OutputFile::commit() {
  flush();
  const int file = std::exchange(file_, -1);
  const bool closed = close(file) == 0;
  if (temporary_.empty()) {
    if (!closed) fail("cannot write the file");
    return;
  }
  if (!closed || rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    errno = error;
    fail("cannot write the file");
  }
}

void OutputFile::fail(const char* what) const {
  const int error = errno;
  throw with_hint(runtime_failure("{}: {}: {}", path_, what, std::strerror(error)),
                  error == ENOSPC   ? "free some space or choose another place"
                  : error == ENOENT ? "create the folder first"
                                    : "");
}

}  // namespace hetsgd
