#include "core/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <utility>

namespace hetsgd {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr int kMostLinks = 40;  // as the system's own limit

// What the link points to, as a path from here; none: `place` is no link.
std::optional<fs::path> pointed_to(const fs::path& place) {
  std::error_code failed;
  const fs::path target = fs::read_symlink(place, failed);
  if (failed) return std::nullopt;
  return place.parent_path() / target;  // an absolute target stands for itself
}

bool lies_in(const fs::path& place, const fs::path& folder) {
  std::error_code failed;
  const fs::path parent = place.has_parent_path() ? place.parent_path() : fs::path(".");
  const fs::path real = fs::canonical(parent, failed);
  return !failed && real == folder;
}

// Why nothing can be written to an open descriptor, as an error number; 0: it can.
int descriptor_problem(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0) return errno;
  return (flags & O_ACCMODE) == O_RDONLY ? EBADF : 0;
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

std::optional<int> descriptor_of(const std::string& path) {
  if (path == "-") return STDOUT_FILENO;
  std::error_code failed;
  const fs::path own = fs::canonical("/proc/self/fd", failed);
  if (failed) return std::nullopt;
  fs::path place = path;
  for (int links = 0; links < kMostLinks; ++links) {
    if (lies_in(place, own)) {
      const std::string name = place.filename().string();
      int number = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      const bool whole = error == std::errc() && end == name.data() + name.size();
      return whole ? std::optional(number) : std::nullopt;
    }
    const std::optional<fs::path> next = pointed_to(place);
    if (!next) return std::nullopt;
    place = *next;
  }
  return std::nullopt;
}

bool is_stream(const std::string& path) {
  if (descriptor_of(path)) return true;
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

std::string follow_links(const std::string& path) {
  fs::path place = path;
  for (int links = 0; links < kMostLinks; ++links) {
    const std::optional<fs::path> next = pointed_to(place);
    if (!next) break;
    place = *next;
  }
  return place.string();
}

void check_writable(const std::string& path, const std::string& what) {
  if (const std::optional<int> descriptor = descriptor_of(path)) {
    const int problem = descriptor_problem(*descriptor);
    if (problem != 0) throw write_error(ExitCode::usage, path, what, problem);
    return;
  }
  if (is_stream(path)) {  // opened at the end: a pipe's reader would see it closed now
    if (access(path.c_str(), W_OK) != 0) throw write_error(ExitCode::usage, path, what, errno);
    return;
  }
  try {
    const OutputFile probe(path, {.what = what});  // never committed: leaves nothing behind
  } catch (const Error& error) {
    throw Error(ExitCode::usage, error.what(), error.hint());
  }
}

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
  return Error(code,
               fmt::format("{}: cannot write {}: {}", path == "-" ? "stdout" : path, what,
                           std::strerror(error_number)),
               hint);
}

OutputFile::OutputFile(std::string path, OutputFileOptions options)
    : path_(std::move(path)), options_(std::move(options)), target_(follow_links(path_)) {
  buffer_.reserve(kBufferBytes);
  if (const std::optional<int> descriptor = descriptor_of(path_)) {
    file_ = fcntl(*descriptor, F_DUPFD_CLOEXEC, 0);  // its place in the file is the owner's
    if (file_ < 0) fail();
    return;
  }
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
