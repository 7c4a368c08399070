#include "experiment/sweep_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/input_file.hpp"
#include "core/json_fields.hpp"
#include "core/logging.hpp"
#include "core/non_copyable.hpp"
#include "core/output_file.hpp"
#include "core/text.hpp"
#include "experiment/spec_file.hpp"
#include "result/result.hpp"
#include "training/record.hpp"

namespace hetsgd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// An open file that this process alone has locked.
class LockedFile : NonCopyable {
 public:
  LockedFile(const std::string& path, const std::string& what) : path_(path), what_(what) {
    file_ = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (file_ < 0) fail();
    while (::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~LockedFile() { ::close(file_); }

  // Appends behind the last whole line.
  void append(const std::string& line) const {
    off_t end = ::lseek(file_, 0, SEEK_END);
    char last = '\n';
    while (end > 0 && ::pread(file_, &last, 1, end - 1) == 1 && last != '\n') --end;
    if (::ftruncate(file_, end) != 0) fail();
    if (::pwrite(file_, line.data(), line.size(), end) == static_cast<ssize_t>(line.size())) return;
    const int error = errno;
    if (::ftruncate(file_, end) != 0) fail();
    errno = error;
    fail();
  }

 private:
  [[noreturn]] void fail() const { throw write_error(ExitCode::runtime, path_, what_, errno); }

  std::string path_, what_;
  int file_ = -1;
};

// Whether there is a file to read under the name. Throws Error(data) if it is no regular file,
// because reading a pipe would block.
bool is_there(const std::string& path) {
  std::error_code failed;
  const fs::file_type type = fs::status(path, failed).type();
  if (type == fs::file_type::not_found) return false;
  if (type == fs::file_type::regular) return true;
  refuse(path, failed ? failed.message() : "something that is no regular file", "a file", "",
         ExitCode::data);
}

// Whether the temporary file has no writer any more. Either its writer is dead, or that cannot be
// seen from here and the file was not touched for long.
bool is_left_behind(const fs::path& temporary) {
  const TemporaryWriter writer = writer_of(temporary.string());
  if (writer != TemporaryWriter::unknown) return writer == TemporaryWriter::dead;
  std::error_code failed;
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(temporary, failed);
  return !failed && age > Claim::kSilence;
}

// Whether this is a line of an index as Sweep::add_to_index writes it. Older lines lack the state
// of their file.
bool is_run_line(const json& run) {
  const auto is_text = [&](const char* key) { return run.contains(key) && run[key].is_string(); };
  const auto is_whole = [&](const char* key) {
    return !run.contains(key) || run[key].is_number_integer();
  };
  if (!run.is_object() || !is_whole("bytes") || !is_whole("modified_ns")) return false;
  if (!is_text("id") || !is_text("status") || !is_text("stage") || !is_text("setup")) return false;
  if (!is_text("case") || !run.contains("seed") || !run["seed"].is_number_unsigned()) return false;
  if (!is_text("file") && !(run.contains("file") && run["file"].is_null())) return false;
  if (run.contains("tuning") && !is_text("tuning")) return false;
  if (!run.contains("summary")) return true;
  return run["summary"].is_object() && run["summary"].value("wall_s", json()).is_number();
}

void make_folder(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) throw runtime_failure("{}: cannot make the folder: {}", path, failed.message());
}

}  // namespace

json essence(json specification) {
  for (const std::string_view key : kFreeKeys) specification.erase(std::string(key));
  for (const char* const key : {"max_wall", "interleave", "launch"}) specification.erase(key);
  return specification;
}

json specification_in(const std::string& path) {
  const json document = read_json(path);
  const bool good = document.is_object() && document.value("kind", json()) == "sweep" &&
                    document.value("specification", json()).is_object();
  return good ? document["specification"] : json();
}

SweepFolder::SweepFolder(std::string folder, std::string name)
    : folder_(std::move(folder)), name_(std::move(name)) {
  if (folder_.empty()) refuse("--output, --runs", "\"\"", "a folder such as runs");
  while (folder_.size() > 1 && folder_.ends_with('/')) folder_.pop_back();
}

std::string SweepFolder::result_file(const PlannedRun& run) const {
  const bool trial = run.stage == SweepStage::tuning;
  return fmt::format("{}/{}/{}.json", folder_, trial ? "trials" : "runs", run.name());
}

std::string SweepFolder::tuned_file(const std::string& hash) const {
  const std::string name = hash.substr(hash.find(':') + 1);
  return fmt::format("{}/tunings/{}.json", fs::absolute(folder_).string(), name);
}

std::string SweepFolder::lock_file(const std::string& name) const {
  return fmt::format("{}/locks/{}.lock", folder_, name);
}

std::string SweepFolder::log_file(const PlannedRun& run) const {
  return fs::path(result_file(run)).replace_extension(".log").string();
}

void SweepFolder::check(const SweepSpec& spec, bool extend) const {
  const std::string path = specification_file();
  if (!is_there(path)) return;
  const json earlier = specification_in(path);
  if (earlier.is_null()) throw data_error("{}: not the specification of a sweep", path);
  const std::string difference = first_difference_in(essence(earlier), essence(spec.written));
  if (difference.empty() || extend) return;
  throw with_hint(
      usage_error("{}: the folder has a sweep {} with another specification: {} differs", spec.path,
                  name_, difference),
      "--extend continues with the new one and keeps the runs that both have; or choose another "
      "name, or another folder with -o");
}

void SweepFolder::open(const SweepSpec& spec) const {
  for (const char* const inner : {"runs", "trials", "tunings", "locks"}) {
    make_folder(fmt::format("{}/{}", folder_, inner));
  }
  tidy_temporaries();
  const json document = {{"schema_version", "1.0"},
                         {"kind", "sweep"},
                         {"tool", tool_json()},
                         {"name", name_},
                         {"specification", spec.written}};
  write_text(specification_file(), document.dump(2) + "\n");
}

std::optional<Claim> SweepFolder::claim(const PlannedRun& run) const {
  return Claim::try_claim(lock_file(to_string(run.stage) + "-" + run.name()));
}

std::optional<Claim> SweepFolder::claim_host() const {
  return Claim::try_claim(lock_file("host-" + host_name()));
}

void SweepFolder::tidy() const {
  tidy_temporaries();
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder_ + "/locks", failed)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".lock") || name.ends_with(".index.lock")) continue;
    Claim::try_claim(entry.path().string());  // claims and releases it, so a stale one goes
  }
}

void SweepFolder::tidy_temporaries() const {
  for (const char* const inner : {"", "/runs", "/trials", "/tunings"}) {
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(folder_ + inner, failed)) {
      if (is_left_behind(entry.path())) fs::remove(entry.path(), failed);
    }
  }
}

std::optional<FileState> state_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
    return std::nullopt;
  }
  return FileState{static_cast<std::uint64_t>(status.st_size),
                   std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

SweepIndex::SweepIndex(std::string text, const std::string& path) : text_(std::move(text)) {
  int number = 0;
  for (std::size_t at = 0, end = 0; (end = text_.find('\n', at)) != std::string::npos;
       at = end + 1) {
    ++number;
    Line line;
    line.begin = at;
    line.size = end - at;
    json run;
    try {
      run = parse(line);
    } catch (const Error&) {  // reported below, like all lines that are no run
    }
    if (!is_run_line(run)) {
      refuse(fmt::format("{}:{}", path, number), quote(text_.substr(at, end - at)),
             "a run as a JSON object", "remove the index: it is made again from the results",
             ExitCode::data);
    }
    line.done = is_done(run["status"]);
    line.file = {run.value("bytes", std::uint64_t{0}), run.value("modified_ns", std::int64_t{0})};
    line.tuning = run.value("tuning", "");
    lines_[run["id"].get<std::string>()] = line;
  }
}

json SweepIndex::parse(const Line& line) const {
  return parse_json(std::string_view(text_).substr(line.begin, line.size), "index");
}

bool SweepIndex::has_result(const std::string& id, const FileState& file,
                            const std::string& tuning) const {
  const auto found = lines_.find(id);
  if (found == lines_.end()) return false;
  const Line& line = found->second;
  return line.done && line.file == file && (tuning.empty() || line.tuning == tuning);
}

json SweepIndex::find(const std::string& id) const {
  const auto found = lines_.find(id);
  return found == lines_.end() ? json() : parse(found->second);
}

void SweepIndex::for_each(const std::function<void(const json& line)>& call) const {
  std::vector<Line> lines;
  for (const auto& [id, line] : lines_) lines.push_back(line);
  std::ranges::sort(lines, {}, &Line::begin);
  for (const Line& line : lines) call(parse(line));
}

SweepIndex SweepFolder::read_index() const {
  if (!is_there(index_file())) return {};
  return {read_text_file(index_file(), {.noun = "index"}, kMostJsonBytes), index_file()};
}

void SweepFolder::append_to_index(const json& line) const {
  const LockedFile lock(lock_file(name_ + ".index"), "the lock");
  LockedFile(index_file(), "the index").append(line.dump() + "\n");
}

void SweepFolder::rewrite_index(const std::vector<PlannedRun>& runs,
                                const std::function<json(const PlannedRun&)>& about) const {
  const LockedFile lock(lock_file(name_ + ".index"), "the lock");
  const SweepIndex index = read_index();
  std::string text;
  for (const PlannedRun& run : runs) {
    json line = index.find(run.name());
    if (line.is_null()) continue;
    line.update(about(run));
    text += line.dump() + "\n";
  }
  write_text(index_file(), text);
}

namespace {

using FileStatus = struct stat;

std::string owner_text() {
  return fmt::format("host {} pid {} since {}\n", host_name(), ::getpid(), utc_now());
}

std::string content_of_file(int file) {
  std::array<char, 1024> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

// Whether `path` still names the opened file. A released file is removed while others may have it
// open.
bool is_still_there(const std::string& path, int file) {
  FileStatus named{}, opened{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(file, &opened) == 0 &&
         named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

// The time since the file was touched, by the file server's clock; 0 if it cannot be determined.
Seconds silence_of(const std::string& path, int file) {
  FileStatus before{}, now{};
  const std::string probe = fmt::format("{}.{}.{}", path, host_name(), ::getpid());
  const int other = ::open(probe.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
  if (other < 0) return Seconds(0);
  const bool known = ::fstat(file, &before) == 0 && ::fstat(other, &now) == 0;
  ::close(other);
  ::unlink(probe.c_str());
  return Seconds(known ? static_cast<double>(now.st_mtime - before.st_mtime) : 0);
}

// Whether the owner of a file is dead, once this process has got the file's lock. The owner of an
// empty file is about to write its name.
bool is_left_behind(const std::string& path, int file) {
  constexpr Seconds kPause{10};
  const std::string owner = content_of_file(file);
  if (owner.starts_with(fmt::format("host {} pid ", host_name()))) return true;
  return silence_of(path, file) > (owner.empty() ? kPause : Claim::kSilence);
}

// Removes an existing file if its owner is dead, and returns whether the file is gone. If several
// hosts try at the same time, one succeeds in renaming it.
bool take_away(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return errno == ENOENT;
  bool gone = false;
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) {
    gone = !is_still_there(path, file);
    if (!gone && is_left_behind(path, file)) {
      const std::string aside = fmt::format("{}.{}.{}.old", path, host_name(), ::getpid());
      gone = ::rename(path.c_str(), aside.c_str()) == 0;
      if (gone) ::unlink(aside.c_str());
    }
  }
  ::close(file);
  return gone;
}

}  // namespace

std::optional<Claim> Claim::try_claim(const std::string& path) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
    if (file < 0 && errno == ENOENT) {
      std::filesystem::create_directories(std::filesystem::path(path).parent_path());
      continue;
    }
    if (file < 0 && errno == EEXIST) {
      if (take_away(path)) continue;
      return std::nullopt;
    }
    if (file < 0) throw write_error(ExitCode::runtime, path, "the lock", errno);
    Claim claim(path, file);
    while (::flock(file, LOCK_EX) != 0 && errno == EINTR) {  // others lock it briefly to check it
    }
    const std::string text = owner_text();
    const ssize_t written = ::pwrite(file, text.data(), text.size(), 0);
    if (written == static_cast<ssize_t>(text.size())) return claim;
    throw write_error(ExitCode::runtime, path, "the lock", errno);
  }
  return std::nullopt;
}

Claim::~Claim() { release(); }

Claim::Claim(Claim&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

Claim& Claim::operator=(Claim&& other) noexcept {
  if (this == &other) return *this;
  release();
  path_ = std::move(other.path_);
  file_ = std::exchange(other.file_, -1);
  return *this;
}

void Claim::touch() const { ::futimens(file_, nullptr); }

void Claim::release() {
  if (file_ < 0) return;
  ::unlink(path_.c_str());  // before the unlock, so that nobody locks a removed file
  ::close(file_);
  file_ = -1;
}

}  // namespace hetsgd
