#include "core/input_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "core/error.hpp"
#include "core/text.hpp"

namespace hetsgd {
namespace {

// A user who starts both ends of a pipe at once need not start the writer first.
constexpr int kWriterMilliseconds = 1000;

Error unreadable(const std::string& path, const InputKind& kind, int error) {
  const std::string text =
      fmt::format("{}: cannot open the {}: {}", path, kind.noun, std::strerror(error));
  return Error(ExitCode::data, text,
               error == ENOENT   ? kind.missing
               : error == EACCES ? "check the file's permissions"
                                 : "");
}

// The inputs of this process by their paths, with the noun of the first reader.
struct FilesRead {
  std::mutex mutex;
  std::map<std::string, std::string> noun;

  static FilesRead& all() {
    static FilesRead files;
    return files;
  }
};

void remember(const std::string& path, const std::string& noun) {
  std::error_code unknown;
  const std::filesystem::path whole = std::filesystem::absolute(path, unknown);
  FilesRead& files = FilesRead::all();
  const std::lock_guard guard(files.mutex);
  files.noun.emplace(unknown ? path : whole.string(), noun);
}

}  // namespace

InputFile::InputFile(std::string path, InputKind kind)
    : path_(std::move(path)),
      kind_(std::move(kind)),
      // Opens without waiting, because a pipe is judged first.
      file_(open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  struct stat status {};
  if (file_ < 0) throw unreadable(path_, kind_, errno);
  try {
    if (fstat(file_, &status) != 0) throw unreadable(path_, kind_, errno);
    if (S_ISDIR(status.st_mode)) {
      refuse(path_, "a directory", "a " + kind_.noun, kind_.directory, ExitCode::data);
    }
    if (S_ISBLK(status.st_mode) || (S_ISCHR(status.st_mode) && isatty(file_) == 0)) {
      refuse(path_, "a device", "a " + kind_.noun, "", ExitCode::data);
    }
    if (S_ISFIFO(status.st_mode)) await_writer();
    fcntl(file_, F_SETFL, fcntl(file_, F_GETFL) & ~O_NONBLOCK);
  } catch (...) {
    close(file_);
    throw;
  }
  has_size_ = S_ISREG(status.st_mode) && status.st_size > 0;
  size_ = has_size_ ? static_cast<std::uint64_t>(status.st_size) : 0;
  changed_s_ = status.st_mtim.tv_sec;
  changed_ns_ = status.st_mtim.tv_nsec;
  if (S_ISREG(status.st_mode)) remember(path_, kind_.noun);
}

InputFile::~InputFile() { close(file_); }

// Waits until somebody writes to the pipe. Only a read that would have to wait tells a silent
// writer from a missing one.
void InputFile::await_writer() {
  pollfd ready{.fd = file_, .events = POLLIN, .revents = 0};
  poll(&ready, 1, kWriterMilliseconds);
  head_.resize(std::size_t{1} << 16);
  const ssize_t got = ::read(file_, head_.data(), head_.size());
  head_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (got == 0) {
    refuse(path_, "a pipe to which nobody writes", "a " + kind_.noun,
           "start the program that writes to it first", ExitCode::data);
  }
}

void InputFile::fail_changed(std::uint64_t size) const {
  const std::string what = size < size_   ? fmt::format("shrank from {} to {} bytes", size_, size)
                           : size > size_ ? fmt::format("grew from {} to {} bytes", size_, size)
                                          : "changed";
  throw with_hint(data_error("{}: the {} {} while it was read", path_, kind_.noun, what),
                  "read it again when nobody writes to it");
}

void InputFile::read(std::uint64_t offset, std::span<char> to) const {
  while (!to.empty()) {
    const ssize_t got = pread(file_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw data_error("{}: cannot read the {}: {}", path_, kind_.noun, std::strerror(errno));
    }
    if (got == 0) fail_changed(offset);
    offset += static_cast<std::uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

std::size_t InputFile::next(std::span<char> to) {
  if (!head_.empty()) {
    const std::size_t count = std::min(to.size(), head_.size());
    std::memcpy(to.data(), head_.data(), count);
    head_.erase(0, count);
    return count;
  }
  while (true) {
    const ssize_t got = ::read(file_, to.data(), to.size());
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EINTR) continue;
    throw data_error("{}: cannot read the {}: {}", path_, kind_.noun, std::strerror(errno));
  }
}

std::shared_ptr<const char> InputFile::map() const {
  struct stat status {};
  struct statfs system {};
  constexpr std::array<std::uint32_t, 6> kOwnDisks = {EXT4_SUPER_MAGIC,  XFS_SUPER_MAGIC,
                                                      BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
                                                      TMPFS_MAGIC,       OVERLAYFS_SUPER_MAGIC};
  if (!has_size_ || fstat(file_, &status) != 0 || fstatfs(file_, &system) != 0 ||
      std::ranges::find(kOwnDisks, static_cast<std::uint32_t>(system.f_type)) == kOwnDisks.end() ||
      status.st_uid != geteuid() || (status.st_mode & S_IWOTH) != 0 ||
      static_cast<std::uint64_t>(status.st_size) != size_) {
    return nullptr;
  }
  void* const bytes = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file_, 0);
  if (bytes == MAP_FAILED) return nullptr;
  return {static_cast<const char*>(bytes),
          [size = size_](const char* mapped) { munmap(const_cast<char*>(mapped), size); }};
}

void InputFile::check_unchanged() const {
  struct stat status {};
  if (!has_size_ || fstat(file_, &status) != 0) return;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size != size_ || status.st_mtim.tv_sec != changed_s_ ||
      status.st_mtim.tv_nsec != changed_ns_) {
    fail_changed(size);
  }
}

std::vector<FileRead> files_read() {
  FilesRead& files = FilesRead::all();
  const std::lock_guard guard(files.mutex);
  std::vector<FileRead> list;
  for (const auto& [path, noun] : files.noun) list.push_back({path, noun});
  return list;
}

std::string read_file(const std::string& path, const InputKind& kind, std::uint64_t most) {
  InputFile file(path, kind);
  const auto refuse_beyond = [&](std::uint64_t size) {
    if (size <= most) return;
    const auto text = [](std::uint64_t bytes) { return format_bytes(static_cast<double>(bytes)); };
    refuse(path, text(size) + " or more", fmt::format("a {} of at most {}", kind.noun, text(most)),
           "", ExitCode::data);
  };
  refuse_beyond(file.size());
  std::string text;
  std::size_t got = 0;
  do {
    const std::size_t size = text.size();
    text.resize(size + std::max<std::size_t>(std::size_t{1} << 16, size));
    got = file.next(std::span(text).subspan(size));
    text.resize(size + got);
    refuse_beyond(text.size());
  } while (got > 0);
  return text;
}

std::string read_text_file(const std::string& path, const InputKind& kind, std::uint64_t most) {
  std::string text = read_file(path, kind, most);
  refuse_other_kinds(text, path, "a " + kind.noun, TextUse::any);
  text.erase(0, text.size() - behind_mark(text).size());
  return text;
}

namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kGzip = "\x1F\x8B", kBzip2 = "BZh";

struct Mark {
  std::size_t at;
  std::string_view bytes, what;
};

constexpr Mark kMarks[] = {
    {0, kGzip, "a gzip stream"},
    {0, kBzip2, "a bzip2 stream"},
    {0, "\xFD\x37zXZ", "an xz stream (xz -d)"},
    {0, "\x04\x22\x4D\x18", "an lz4 stream (lz4 -d)"},
    {0, "PK\x03\x04", "a zip archive (.zip, .npz, .pt; unzip)"},
    {257, "ustar", "a tar archive (tar xf)"},
    {0, "PAR1", "a Parquet file"},
    {0, "\x89HDF\r\n", "an HDF5 file"},
    {0, "\x93NUMPY", "a NumPy array (.npy)"},
    {0, "\x80", "a pickle of Python (CIFAR has a binary version, too)"},
    {0, "\x7F\x45LF", "a program (ELF)"},
    {0, "HSGDCKPT", "a checkpoint of hetsgd (--resume-from)"},
    {0, "\xFF\xFE", "text in UTF-16 (iconv -f UTF-16 -t UTF-8)"},
    {0, "\xFE\xFF", "text in UTF-16 (iconv -f UTF-16 -t UTF-8)"},
};

// Whether the beginning has zeros, and more control bytes than any text.
bool is_binary(std::string_view text) {
  const std::string_view head = text.substr(0, 4096);
  const auto controls = std::ranges::count_if(
      head, [](unsigned char c) { return c < ' ' && (c < '\t' || c > '\r'); });
  return 32 * controls > std::ssize(head) && head.find('\0') != std::string_view::npos;
}

std::string_view kind_of(std::string_view text, TextUse use) {
  for (const Mark& mark : kMarks) {
    if (text.size() >= mark.at && text.substr(mark.at).starts_with(mark.bytes)) return mark.what;
  }
  if (detect_compression(text) == Compression::zstd) return "a zstd stream";
  if (use == TextUse::any) return "";
  if (is_binary(text)) return "bytes that are no text in UTF-8";
  const bool one_line = text.find('\n') == std::string_view::npos;
  if (one_line && text.substr(0, text.size() - 1).find('\r') != std::string_view::npos) {
    return "lines that end in a carriage return alone (tr '\\r' '\\n')";
  }
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  if (text.substr(first, 1) == "<") return "HTML or XML";
  return text.substr(first, 1) == "{" ? "JSON" : "";
}

}  // namespace

Compression detect_compression(std::string_view bytes) {
  if (bytes.starts_with(kGzip)) return Compression::gzip;
  if (bytes.starts_with(kBzip2)) return Compression::bzip2;
  if (bytes.starts_with("\x28\xB5\x2F\xFD")) return Compression::zstd;
  const bool skippable = (bytes.substr(0, 1) >= "\x50"sv) && bytes.substr(0, 1) <= "\x5F"sv;
  return skippable && bytes.substr(1).starts_with("\x2A\x4D\x18") ? Compression::zstd
                                                                  : Compression::none;
}

std::string_view behind_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

void refuse_other_kinds(std::string_view text, const std::string& path, std::string_view expected,
                        TextUse use) {
  const std::string_view kind = kind_of(text, use);
  if (kind.empty()) return;
  refuse(path, kind, expected, "unpack it, or convert it to text", ExitCode::data);
}

}  // namespace hetsgd
