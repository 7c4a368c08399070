// Files that are read. Each is judged by its kind before a byte is read, and is read into memory of
// our own. A file that others may write is not mapped: a mapping changes with its file, and ends
// the program when the file shrinks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/non_copyable.hpp"

namespace hetsgd {

// How messages speak of a file.
struct InputKind {
  std::string noun;            // "data file"
  std::string missing = "";    // hint where there is no such file
  std::string directory = "";  // hint where it is a directory
};

// An open file. Every error is an Error(data) that begins with the path.
class InputFile : NonCopyable {
 public:
  // Refuses directories, devices (a terminal may be read), and a pipe without a writer, since
  // waiting for a writer that never comes has no end.
  InputFile(std::string path, InputKind kind);
  ~InputFile();

  // Whether the file has a size and can be read at any place. Pipes cannot, nor can files that the
  // system makes up (/proc), whose size is 0.
  bool has_size() const { return has_size_; }
  std::uint64_t size() const { return size_; }  // when it was opened
  const std::string& path() const { return path_; }

  // Reads the bytes from `offset` on, as many as `to` holds, of a file with a size. Throws if they
  // are not there, because the file has shrunk. Thread-safe.
  void read(std::uint64_t offset, std::span<char> to) const;
  // Reads the next bytes of any file, from its start, and returns their count; 0 at the end.
  std::size_t next(std::span<char> to);
  // The whole file mapped in place, for as long as the pointer lives. Only for files of our own
  // that are never written again (but may be replaced by others of the same name). Null where that
  // cannot be relied on, because others may write to the file or another machine keeps it; then the
  // file must be read.
  std::shared_ptr<const char> map() const;
  // Throws if size or modification time differ from those at the opening, since the bytes read may
  // then be a mixture of two versions.
  void check_unchanged() const;

 private:
  void await_writer();
  [[noreturn]] void fail_changed(std::uint64_t size) const;

  std::string path_;
  InputKind kind_;
  int file_ = -1;
  bool has_size_ = false;
  std::uint64_t size_ = 0;
  std::int64_t changed_s_ = 0, changed_ns_ = 0;
  std::string head_;  // bytes read from a pipe to see that somebody writes to it
};

// The regular files that this process has opened as InputFile so far.
struct FileRead {
  std::string path;  // absolute
  std::string noun;
};
std::vector<FileRead> files_read();

// The whole file. Error(data) if it is longer than `most` bytes, so that an endless file is
// refused, too.
std::string read_file(const std::string& path, const InputKind& kind, std::uint64_t most);
// The same for text that a person may have written: without its byte order mark. Error(data) for
// what is no text, too (refuse_other_kinds).
std::string read_text_file(const std::string& path, const InputKind& kind, std::uint64_t most);

// --- the kind of a file by its first bytes, whatever its name ------------------------------------
// The first bytes of foreign formats stand in input_file.cpp alone, apart from those of the images
// that are read.

enum class Compression { none, gzip, bzip2, zstd };

// A zstd file may begin with skippable frames (RFC 8878, 3.1.2), as pzstd writes them.
Compression detect_compression(std::string_view bytes);

// UTF-8 text without the byte order mark at its beginning, if it has one.
std::string_view behind_mark(std::string_view text);

// rows: a line for each row, so neither control bytes, HTML, XML and JSON nor lines that end in a
// carriage return alone.
enum class TextUse { any, rows };

// Refuses bytes that are no such text: archives, compressed streams, binary files of other tools,
// UTF-16. Error(data) says what they are, what was expected, and what to do. `text` is the whole
// content, decompressed.
void refuse_other_kinds(std::string_view text, const std::string& path, std::string_view expected,
                        TextUse use);

}  // namespace hetsgd
