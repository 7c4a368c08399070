#include "result/output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "result/result.hpp"

namespace hetsgd {
namespace {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ > STDERR_FILENO) ::close(number_);
  }
  int get() const { return number_; }
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

std::string hint_for(int error) {
  if (error == ENOSPC || error == EDQUOT) return "free some space or write elsewhere with -o";
  if (error == ENOENT) return "create the folder first";
  if (error == EACCES || error == EROFS) return "write elsewhere with -o";
  return "";
}

Error failure(ExitCode code, const std::string& path, int error) {
  return Error(code, fmt::format("{}: cannot write the result: {}", path, std::strerror(error)),
               hint_for(error));
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A link stays a link: the file that it points to is replaced.
std::string resolved(const std::string& path) {
  std::error_code failed;
  const auto target = std::filesystem::canonical(path, failed);
  return failed ? path : target.string();
}

std::string temporary_name(const std::string& path) {
  return fmt::format("{}.{}.tmp", path, ::getpid());
}

// True if `path` exists and is neither a regular file nor a folder.
bool is_special(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(file, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

void write_straight(int number, const std::string& path, std::string_view text) {
  const Descriptor file(number);
  if (file.get() < 0 || !write_all(file.get(), text)) {
    throw failure(ExitCode::runtime, path, errno);
  }
}

}  // namespace

void write_result(const std::string& path, const nlohmann::json& result) {
  write_text(path, result_text(result));
}

void write_text(const std::string& path, std::string_view text) {
  if (path == "-") return write_straight(STDOUT_FILENO, "stdout", text);
  if (is_special(path)) {
    return write_straight(::open(path.c_str(), O_WRONLY | O_CLOEXEC), path, text);
  }
  const std::string final_path = resolved(path);
  const std::string temporary = temporary_name(final_path);
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) throw failure(ExitCode::runtime, path, errno);
  if (!write_all(file.get(), text) || ::fsync(file.get()) != 0 || !file.close() ||
      ::rename(temporary.c_str(), final_path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    throw failure(ExitCode::runtime, path, error);
  }
  // The rename itself survives a power cut only once the folder is on disk; some file systems
  // refuse to fsync a folder, which harms nothing else.
  const Descriptor folder(
      ::open(folder_of(final_path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
}

void check_writable(const std::string& path) {
  if (path == "-") return;
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    throw failure(ExitCode::usage, path, EISDIR);
  }
  if (is_special(path)) {
    if (::access(path.c_str(), W_OK) != 0) throw failure(ExitCode::usage, path, errno);
    return;
  }
  const std::string temporary = temporary_name(resolved(path));
  const Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) throw failure(ExitCode::usage, path, errno);
  ::unlink(temporary.c_str());
}

}  // namespace hetsgd
