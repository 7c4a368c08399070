#include "result/output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "core/output_file.hpp"
#include "result/result.hpp"

namespace hetsgd {
namespace {

constexpr const char* kWhat = "the result";

void write_to_stdout(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(STDOUT_FILENO, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) throw write_error(ExitCode::runtime, "stdout", kWhat, errno);
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

}  // namespace

void write_result(const std::string& path, const nlohmann::json& result, bool durable) {
  write_text(path, result_text(result), durable);
}

void write_text(const std::string& path, std::string_view text, bool durable) {
  if (path == "-") return write_to_stdout(text);
  OutputFile file(path, {.what = kWhat, .durable = durable});
  file.write(text);
  file.commit();
}

void check_writable(const std::string& path) {
  if (path == "-") return;
  struct stat status {};
  const bool special =
      ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  if (special) {
    if (::access(path.c_str(), W_OK) != 0) throw write_error(ExitCode::usage, path, kWhat, errno);
    return;
  }
  try {
    const OutputFile probe(path, {.what = kWhat});  // never committed: leaves nothing behind
  } catch (const Error& error) {
    throw Error(ExitCode::usage, error.what(), error.hint());
  }
}

}  // namespace hetsgd
