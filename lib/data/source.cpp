#include "data/source.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>

#include "core/error.hpp"

namespace hetsgd {

namespace {

[[noreturn]] void fail_to_open(const std::string& path, int error) {
  const char* hint = error == ENOENT   ? "check the path; generated data is 'generate:tiny'"
                     : error == EACCES ? "check the file's permissions"
                                       : "";
  throw with_hint(data_error("{}: cannot open the data file: {}", path, std::strerror(error)),
                  hint);
}

struct Descriptor {
  explicit Descriptor(const std::string& path) : number(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number < 0) fail_to_open(path, errno);
  }
  ~Descriptor() { close(number); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number;
};

}  // namespace

FileBytes::FileBytes(const std::string& path, Wanted wanted) {
  const Descriptor file(path);
  struct stat status {};
  if (fstat(file.number, &status) != 0) fail_to_open(path, errno);
  if (S_ISDIR(status.st_mode)) {
    throw with_hint(data_error("{}: is a directory, expected a data file", path),
                    "name one of the files in it");
  }
  if (S_ISREG(status.st_mode) && status.st_size > 0) {
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const mapping = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number, 0);
    if (mapping != MAP_FAILED) {
      if (wanted == Wanted::all) madvise(mapping, size, MADV_WILLNEED);
      mapping_ = mapping;
      bytes_ = {static_cast<const char*>(mapping), size};
      return;
    }
  }
  read_all(file.number, path);
}

FileBytes::~FileBytes() {
  if (mapping_ != nullptr) munmap(mapping_, bytes_.size());
}

void FileBytes::read_all(int file, const std::string& path) {
  std::size_t size = 0;
  while (true) {
    if (buffer_.size() - size < (std::size_t{1} << 16))
      buffer_.resize(buffer_.size() * 2 + (1 << 17));
    const ssize_t got = read(file, buffer_.data() + size, buffer_.size() - size);
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw data_error("{}: cannot read the data file: {}", path, std::strerror(errno));
    size += static_cast<std::size_t>(got);
  }
  bytes_ = {buffer_.data(), size};
}

std::uint64_t content_hash(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string file_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace hetsgd
