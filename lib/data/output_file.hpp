// A file that appears under its name complete or not at all.
#pragma once

#include <string>
#include <string_view>

namespace hetsgd {

// Bytes go to a temporary file beside `path`, which commit() renames; without commit() it is
// removed. What is not a regular file (a pipe, /dev/stdout) is written directly. Every failure, a
// full disk too, is an Error(runtime) naming the path.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  void commit();

 private:
  void flush();
  void write_out(std::string_view bytes);
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_;  // empty: writing directly
  int file_ = -1;
  std::string buffer_;
};

}  // namespace hetsgd
