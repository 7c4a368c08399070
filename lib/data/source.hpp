// The bytes of a file: mapped where possible, read otherwise, and decompressed when asked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hetsgd {

// Owns the bytes of one file for as long as it lives. A regular file is mapped; a pipe, a device or
// a file without a size is read to its end.
class FileBytes {
 public:
  enum class Wanted { all, parts };  // all: the system fetches the file ahead of us
  // Throws Error(data) for a missing or unreadable file and for a directory.
  explicit FileBytes(const std::string& path, Wanted wanted = Wanted::all);
  ~FileBytes();
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  std::string_view bytes() const { return bytes_; }

 private:
  void read_all(int file, const std::string& path);

  std::string_view bytes_;
  void* mapping_ = nullptr;
  std::vector<char> buffer_;
};

// XXH3-64 of the bytes.
std::uint64_t content_hash(std::string_view bytes);

// The last component of a path.
std::string file_name(const std::string& path);

enum class Compression { none, gzip, bzip2, zstd };

// Told by the first bytes, whatever the file's name.
Compression detect_compression(std::string_view bytes);

// The decompressed bytes of all streams in `bytes` (compressors and `cat` may leave several).
// Throws Error(data) naming `path` and what is wrong if the stream is damaged or cut off.
std::string decompress(std::string_view bytes, Compression compression, const std::string& path);

}  // namespace hetsgd
