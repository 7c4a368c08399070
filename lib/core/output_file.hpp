// A file that appears under its name complete or not at all.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd {

struct OutputFileOptions {
  std::string what = "the file";  // in messages: "PATH: cannot write the file: ..."
  bool durable = false;           // fsync of the file and its folder: survives a power cut
  bool follow = true;             // a link stays a link; false: the file takes the link's place
};

// Bytes go to a temporary file beside `path`, which commit() renames; without commit() it is
// removed. A link stays a link: the file that it points to is replaced or made. A stream (see
// below) is written directly; a pipe that nobody opens for reading within a second is an error.
// Every failure, a full disk too, is an Error(runtime) that names the path and the reason. An
// existing file stays whole until commit() replaces it.
class OutputFile : NonCopyable {
 public:
  explicit OutputFile(std::string path, OutputFileOptions options = {});
  ~OutputFile();

  void write(std::string_view bytes);
  // `replaces` is called before a file is replaced, when all bytes of the new one are written
  // (durable: on the disk).
  void commit(const std::function<void()>& replaces = nullptr);

 private:
  void flush();
  void write_out(std::string_view bytes);
  [[noreturn]] void fail() const;

  std::string path_;
  OutputFileOptions options_;
  std::string target_;     // path_ with links followed
  std::string temporary_;  // empty: writing directly
  int file_ = -1;
  std::string buffer_;
};

// The process that wrote a temporary file, as its name NAME.SPACE-PID-N.tmp tells. PID is unique
// within SPACE: one boot of one host, and there one container.
enum class TemporaryWriter {
  none,     // the name is no temporary file's
  alive,    // a process that runs here
  dead,     // a process of this host that does not run any more
  unknown,  // a process of another host, of another container or before a reboot
};
TemporaryWriter writer_of(const std::string& path);
// A new name of this form beside `path`. Two writers of one path, in one process or several, do not
// share it.
std::string temporary_name(const std::string& path);
// Removes the temporary files beside `paths` that dead writers of these have left.
void remove_left_behind(const std::vector<std::string>& paths);

// The open descriptor that a path names: "-" is stdout, /dev/stdout, /dev/fd/3, and links to them.
// Writing continues at the owner's position, also in a regular file (`3>> log`).
std::optional<int> descriptor_of(const std::string& path);

// Whether `path` is an open descriptor, a pipe or a device, whose content can only be passed on,
// not replaced. A document that is written several times goes to a stream once, at the end.
bool is_stream(const std::string& path);

// `path` with its last component's links followed, also when they point to nothing yet.
std::string follow_links(const std::string& path);

// From now on an OutputFile of this process at `path` does not replace a file that another process
// has made there meanwhile. It is kept beside that file then, and so are later ones.
void expect_no_file(const std::string& path);
// Gives a file of this process its final name, as expect_no_file has promised. False on an error
// (errno).
bool put_in_place(const std::string& temporary, const std::string& target);
// Whether expect_no_file was called for `path` and nothing was written there yet. For code that
// writes files without OutputFile.
bool expects_no_file(const std::string& path);
// Where an OutputFile for `path` is kept: at `path`, unless another process was first.
std::string kept_as(const std::string& path);
// The files that are kept under another name, by the name that was asked for.
std::map<std::string, std::string> kept_elsewhere();

// Checks that an OutputFile could be written: the folder exists, the file could be created, the
// descriptor is open. Leaves nothing behind. Throws Error(usage) naming the path and the reason. A
// run of hours should not fail at its last line.
void check_writable(const std::string& path, const std::string& what);

// The error of a failed write: "PATH: cannot write WHAT: reason", with a hint.
Error write_error(ExitCode code, const std::string& path, const std::string& what,
                  int error_number);

}  // namespace hetsgd
