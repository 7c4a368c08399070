#include "core/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "core/text.hpp"

namespace hetsgd {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr int kMostLinks = 40;  // as the system's own limit

// The target of a link, as a path from here; none if `place` is no link.
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

// The reason why an open descriptor cannot be written to, as an error number; 0 if it can.
int descriptor_problem(int descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0) return errno;
  return (flags & O_ACCMODE) == O_RDONLY ? EBADF : 0;
}

// The part SPACE of the names of temporary files.
const std::string& process_space() {
  static const std::string space = [] {
    std::string id;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
    std::error_code failed;
    id += fs::read_symlink("/proc/self/ns/pid", failed).string();
    return fmt::format("{:08x}", XXH3_64bits(id.data(), id.size()) >> 32);
  }();
  return space;
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

// How long to wait for a reader. Both ends of a pipe may be started at once, but waiting for a
// reader that never comes has no end.
constexpr std::chrono::milliseconds kReaderTime{1000}, kReaderPause{10};

// Opens a pipe or a device without waiting; writes to it wait. Returns -1 on an error (errno).
int open_stream(const std::string& path) {
  const auto end = std::chrono::steady_clock::now() + kReaderTime;
  int file = -1;
  while ((file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) < 0 &&
         errno == ENXIO && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kReaderPause);
  }
  if (file >= 0) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

// Renames unless `to` exists. Else returns false with EEXIST in errno.
bool rename_to_new(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // Some file systems lack this rename (NFS), others lack links as well (FAT); there a look has to
  // do.
  if (link(from.c_str(), to.c_str()) == 0) return unlink(from.c_str()) == 0;
  if (errno != EPERM && errno != EOPNOTSUPP) return false;
  struct stat status {};
  if (lstat(to.c_str(), &status) != 0) return rename(from.c_str(), to.c_str()) == 0;
  errno = EEXIST;
  return false;
}

// The outputs of this process that had no file when they were checked.
struct NewFiles {
  std::mutex mutex;
  std::set<std::string> expected;              // not written yet
  std::map<std::string, std::string> instead;  // by the name that another process has taken

  static NewFiles& all() {
    static NewFiles files;
    return files;
  }
};

// "dir/r.json" -> "dir/r.kept-123.json", "dir/r.kept-123-1.json" ...
std::string name_beside(const std::string& path, int number) {
  const fs::path whole = path;
  const std::string name =
      fmt::format("{}.kept-{}{}{}", whole.stem().string(), getpid(),
                  number > 0 ? fmt::format("-{}", number) : "", whole.extension().string());
  return (whole.parent_path() / name).string();
}

// write() whose pipe may have lost its reader: that is an error (EPIPE), and no signal. The signal
// comes with a part that was written, too.
ssize_t write_unsignalled(int file, std::string_view bytes) {
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const ssize_t done = ::write(file, bytes.data(), bytes.size());
  const int error = errno;
  constexpr timespec kAtOnce{};
  if (done != static_cast<ssize_t>(bytes.size())) sigtimedwait(&pipe, nullptr, &kAtOnce);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return done;
}

}  // namespace

bool put_in_place(const std::string& temporary, const std::string& target) {
  NewFiles& files = NewFiles::all();
  const std::lock_guard guard(files.mutex);
  if (const auto found = files.instead.find(target); found != files.instead.end()) {
    return rename(temporary.c_str(), found->second.c_str()) == 0;
  }
  if (!files.expected.contains(target)) return rename(temporary.c_str(), target.c_str()) == 0;
  if (rename_to_new(temporary, target)) {
    files.expected.erase(target);  // from now on it is ours
    return true;
  }
  for (int number = 0; errno == EEXIST; ++number) {
    const std::string other = name_beside(target, number);
    if (!rename_to_new(temporary, other)) continue;
    files.instead.emplace(target, other);
    return true;
  }
  return false;
}

void expect_no_file(const std::string& path) {
  NewFiles& files = NewFiles::all();
  const std::lock_guard guard(files.mutex);
  files.expected.insert(follow_links(path));
}

bool expects_no_file(const std::string& path) {
  NewFiles& files = NewFiles::all();
  const std::lock_guard guard(files.mutex);
  return files.expected.contains(follow_links(path));
}

std::string kept_as(const std::string& path) {
  NewFiles& files = NewFiles::all();
  const std::lock_guard guard(files.mutex);
  const auto found = files.instead.find(follow_links(path));
  return found == files.instead.end() ? path : found->second;
}

std::map<std::string, std::string> kept_elsewhere() {
  NewFiles& files = NewFiles::all();
  const std::lock_guard guard(files.mutex);
  return files.instead;
}

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
  if (error_number == EPIPE) {
    hint = "the program that reads from this pipe has ended";
  } else if (error_number == ENXIO) {
    hint = "nobody reads from this pipe: start the program that reads it first";
  } else if (error_number == EFBIG) {
    hint = "a limit on the size of files stops the writing (ulimit -f)";
  } else if (error_number == ENOSPC || error_number == EDQUOT) {
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

namespace {

// A process that nobody has waited for is still in the table, but runs no more: /proc/PID/stat is
// "PID (NAME) STATE ...", where NAME may have brackets.
bool is_running(pid_t process) {
  if (kill(process, 0) != 0 && errno == ESRCH) return false;
  std::string text;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", process)), text);
  const std::size_t name_end = text.rfind(')');
  const bool said = name_end != std::string::npos && name_end + 2 < text.size();
  return !said || (text[name_end + 2] != 'Z' && text[name_end + 2] != 'X');
}

}  // namespace

TemporaryWriter writer_of(const std::string& path) {
  const fs::path name = fs::path(path).filename();
  const std::string owner = name.stem().extension().string();  // ".SPACE-PID-N"
  const std::vector<std::string_view> parts = split(owner, '-');
  if (name.extension() != ".tmp" || parts.size() != 3) return TemporaryWriter::none;
  pid_t process = 0;
  const auto [end, error] = std::from_chars(parts[1].begin(), parts[1].end(), process);
  if (error != std::errc() || end != parts[1].end() || process <= 0) return TemporaryWriter::none;
  if (parts[0].substr(1) != process_space()) return TemporaryWriter::unknown;
  return is_running(process) ? TemporaryWriter::alive : TemporaryWriter::dead;
}

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> serial{0};
  return fmt::format("{}.{}-{}-{}.tmp", path, process_space(), getpid(), serial++);
}

void remove_left_behind(const std::vector<std::string>& paths) {
  std::map<fs::path, std::set<fs::path>> names;  // by folder
  for (const std::string& path : paths) {
    const fs::path target = follow_links(path);
    names[target.has_parent_path() ? target.parent_path() : "."].insert(target.filename());
  }
  std::error_code failed;
  for (const auto& [folder, ours] : names) {
    for (const auto& entry : fs::directory_iterator(folder, failed)) {
      const fs::path name = entry.path().filename();  // NAME.SPACE-PID-N.tmp
      if (!ours.contains(name.stem().stem())) continue;
      if (writer_of(name) == TemporaryWriter::dead) fs::remove(entry.path(), failed);
    }
  }
}

OutputFile::OutputFile(std::string path, OutputFileOptions options)
    : path_(std::move(path)),
      options_(std::move(options)),
      target_(options_.follow ? follow_links(path_) : path_) {
  buffer_.reserve(kBufferBytes);
  const std::optional<int> descriptor = options_.follow ? descriptor_of(path_) : std::nullopt;
  if (descriptor) {
    file_ = fcntl(*descriptor, F_DUPFD_CLOEXEC, 0);  // its place in the file is the owner's
    if (file_ < 0) fail();
    return;
  }
  struct stat status {};
  const bool exists =
      (options_.follow ? stat(target_.c_str(), &status) : lstat(target_.c_str(), &status)) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    fail();
  }
  if (exists && !S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
    file_ = open_stream(target_);
  } else {
    temporary_ = temporary_name(target_);
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
    const ssize_t done = write_unsignalled(file_, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail();
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
}

void OutputFile::commit(const std::function<void()>& replaces) {
  flush();
  const bool synced = !options_.durable || temporary_.empty() || fsync(file_) == 0;
  const int sync_error = errno;
  const bool closed = close(std::exchange(file_, -1)) == 0;
  if (temporary_.empty()) {
    if (!closed) fail();
    return;
  }
  if (synced && closed && replaces && !expects_no_file(target_)) replaces();
  if (!synced || !closed || !put_in_place(temporary_, target_)) {
    const int error = synced ? errno : sync_error;
    unlink(temporary_.c_str());
    errno = error;
    fail();
  }
  if (options_.durable) sync_folder_of(target_);
}

void OutputFile::fail() const { throw write_error(ExitCode::runtime, path_, options_.what, errno); }

}  // namespace hetsgd
