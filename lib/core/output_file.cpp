#include "core/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace hetsgd {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

std::string followed(const std::string& path) {
  std::error_code failed;
  const auto target = std::filesystem::canonical(path, failed);
  return failed ? path : target.string();
}

// The rename itself survives a power cut only once the folder is on disk. Some file systems refuse
// to fsync a folder, which harms nothing else.
void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const int file = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  fsync(file);
  close(file);
}

}  // namespace

Error write_error(ExitCode code, const std::string& path, const std::string& what,
                  int error_number) {
  std::string hint;
  if (error_number == ENOSPC || error_number == EDQUOT) {
    hint = "free some space or choose another place";
  } else if (error_number == ENOENT) {
    hint = "create the folder first";
  } else if (error_number == EACCES || error_number == EROFS) {
    hint = "choose another place";
  }
  return Error(
      code, fmt::format("{}: cannot write {}: {}", path, what, std::strerror(error_number)), hint);
}

OutputFile::OutputFile(std::string path, OutputFileOptions options)
    : path_(std::move(path)), options_(std::move(options)), target_(followed(path_)) {
  struct stat status {};
  const bool exists = stat(target_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    fail();
  }
  if (exists && !S_ISREG(status.st_mode)) {
    file_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    // Two writers of one path, in one process or several, must not share a temporary file.
    static std::atomic<unsigned> serial{0};
    temporary_ = fmt::format("{}.{}-{}.tmp", target_, getpid(), serial++);
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  }
  if (file_ < 0) fail();
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
    if (done < 0) fail();
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
}

void OutputFile::commit() {
  flush();
  const bool synced = !options_.durable || temporary_.empty() || fsync(file_) == 0;
  const int sync_error = errno;
  const bool closed = close(std::exchange(file_, -1)) == 0;
  if (temporary_.empty()) {
    if (!closed) fail();
    return;
  }
  if (!synced || !closed || rename(temporary_.c_str(), target_.c_str()) != 0) {
    const int error = synced ? errno : sync_error;
    unlink(temporary_.c_str());
    errno = error;
    fail();
  }
  if (options_.durable) sync_folder_of(target_);
}

void OutputFile::fail() const { throw write_error(ExitCode::runtime, path_, options_.what, errno); }

}  // namespace hetsgd
