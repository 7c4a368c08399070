#include "data/fetch.hpp"

#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/non_copyable.hpp"
#include "core/output_file.hpp"
#include "data/load.hpp"

extern "C" char** environ;  // NOLINT: posix_spawn takes it

namespace hetsgd {

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  HETSGD_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

void Sha256::add(std::string_view bytes) {
  HETSGD_CHECK_EQ(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()), 1);
}

std::string Sha256::value() {
  std::array<unsigned char, 32> digest{};
  HETSGD_CHECK_EQ(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr), 1);
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

namespace {

namespace fs = std::filesystem;

// A folder that vanishes unless it is kept under another name.
class NewFolder : NonCopyable {
 public:
  explicit NewFolder(std::string final_path)
      : final_path_(std::move(final_path)),
        path_(fmt::format("{}.fetching-{}", final_path_, getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~NewFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

  // At every moment the old data or the new ones are there under some name. The old folder is moved
  // aside, and deleted once the new folder stands in its place. If that fails, it is moved back.
  // Without `overwrite`, a folder that another process has made meanwhile is an error.
  void keep(bool overwrite) {
    if (!overwrite || !fs::exists(final_path_)) return fs::rename(path_, final_path_);
    const std::string old = fmt::format("{}.replaced-{}", final_path_, getpid());
    fs::rename(final_path_, old);
    try {
      fs::rename(path_, final_path_);
    } catch (const fs::filesystem_error&) {
      fs::rename(old, final_path_);
      throw;
    }
    fs::remove_all(old);
  }
  const std::string& path() const { return path_; }

 private:
  std::string final_path_, path_;
};

constexpr std::size_t kCopied = std::size_t{1} << 20;

FetchedFile hash_of(const std::string& path, const std::string& source) {
  InputFile file(path, {.noun = "data file"});
  std::vector<char> piece(kCopied);
  FetchedFile result{.path = path, .source = source};
  Sha256 hash;
  while (const std::size_t got = file.next(piece)) {
    hash.add({piece.data(), got});
    result.bytes += got;
  }
  result.sha256 = hash.value();
  return result;
}

void copy(const std::string& from, const std::string& to) {
  InputFile in(from, {.noun = "data file"});
  OutputFile out(to, {.what = "the data set"});
  std::vector<char> piece(kCopied);
  while (const std::size_t got = in.next(piece)) out.write({piece.data(), got});
  out.commit();
}

// Downloads with the program curl, which knows proxies, certificates and mirrors as its user does.
// A server that sends more than `most` bytes, or redirects to another kind of address, is cut off.
void download(const std::string& address, const std::string& to,
              std::optional<std::uint64_t> most) {
  const std::string bytes = fmt::format("{}", most.value_or(0));  // 0: no limit
  const char* const arguments[] = {"curl",          "--fail",   "--location",  "--silent",
                                   "--show-error",  "--proto",  "=http,https", "--max-filesize",
                                   bytes.c_str(),   "--output", to.c_str(),    "--",
                                   address.c_str(), nullptr};
  pid_t child = 0;
  const int failed = posix_spawnp(&child, arguments[0], nullptr, nullptr,
                                  const_cast<char* const*>(arguments), environ);
  constexpr const char* kByHand = "download it by hand, and name the file: --from FILE";
  if (failed != 0) {
    throw with_hint(runtime_failure("cannot start curl, which downloads {}: {}", address,
                                    std::strerror(failed)),
                    fmt::format("install curl, or {}", kByHand));
  }
  if (most) {  // older versions of curl only check the announced size
    const rlimit limit{.rlim_cur = *most, .rlim_max = *most};
    prlimit(child, RLIMIT_FSIZE, &limit, nullptr);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  throw with_hint(
      runtime_failure("cannot download {}: curl ended with exit code {}", address, code),
      fmt::format("try again, or {}", kByHand));
}

// The file of this name in --from; empty: none.
std::string find_source(const ManifestFile& file, const std::vector<std::string>& from) {
  for (const std::string& place : from) {
    const fs::path path = fs::is_directory(place) ? fs::path(place) / file.name : fs::path(place);
    if (path.filename() == file.name && fs::exists(path)) return path.string();
  }
  return "";
}

FetchedFile bring(const Manifest& manifest, const ManifestFile& file, const FetchOptions& options,
                  const std::string& folder) {
  const std::string to = folder + "/" + file.name;
  std::string source = find_source(file, options.from);
  if (!source.empty()) {
    copy(source, to);
  } else if (!options.from.empty()) {
    throw with_hint(data_error("{}: found no {} in {}", manifest.name, file.name,
                               fmt::join(options.from, ", ")),
                    manifest.preparation);
  } else if (!file.address) {
    throw with_hint(usage_error("{}: found no address that a program can download from, see {}",
                                manifest.name, manifest.page),
                    fmt::format("{}; then run: hetsgd data fetch {} --from FOLDER",
                                manifest.preparation, manifest.name));
  } else {
    source = *file.address;
    download(source, to, file.bytes);
  }
  FetchedFile result = hash_of(to, source);
  const char* const hint = "the file is cut off, damaged or of another version";
  if (file.bytes && result.bytes != *file.bytes) {
    refuse(source, fmt::format("{} bytes", result.bytes), fmt::format("{}", *file.bytes), hint,
           ExitCode::data);
  }
  if (file.sha256 && result.sha256 != *file.sha256) {
    refuse(source, "SHA-256 " + result.sha256, *file.sha256, hint, ExitCode::data);
  }
  return result;
}

// Reads both files once, as a run will read them.
void check_content(const Manifest& manifest, const std::string& folder,
                   std::optional<int> threads) {
  LoadOptions load;
  load.format = manifest.format;
  load.cache = CacheMode::off;
  load.threads = threads;
  const std::string train_file = folder + "/" + manifest.train.name;
  LoadedPair pair;
  if (manifest.test) {
    pair = load_pair(train_file, folder + "/" + manifest.test->name, load);
  } else {
    pair.train = load_dataset(train_file, load);
  }
  const auto check = [&](std::uint64_t found, std::optional<std::uint64_t> expected,
                         std::string_view what) {
    if (!expected || found == *expected) return;
    refuse(manifest.name, fmt::format("{} {}", found, what), fmt::format("{}", *expected),
           manifest.preparation, ExitCode::data);
  };
  const Dataset& train = *pair.train.data;
  if (train.task != manifest.task) {
    refuse(manifest.name, fmt::format("a {} task", to_string(train.task)), to_string(manifest.task),
           manifest.preparation, ExitCode::data);
  }
  check(train.rows(), manifest.train.rows, "training rows");
  const std::uint64_t columns = train.dense.columns + train.fields.count();
  check(columns > 0 ? columns : train.feature_count, manifest.features, "features");
  check(train.label_count, manifest.labels, "labels");
  check(train.nonzeros(), manifest.train.nonzeros, "nonzeros of training rows");
  if (!manifest.test) return;
  check(pair.test.data->rows(), manifest.test->rows, "test rows");
  check(pair.test.data->nonzeros(), manifest.test->nonzeros, "nonzeros of test rows");
}

void record(const Manifest& manifest, const std::vector<FetchedFile>& files,
            const std::string& folder) {
  nlohmann::json list = nlohmann::json::array();
  for (const FetchedFile& file : files) {
    list.push_back({{"name", fs::path(file.path).filename().string()},
                    {"source", file.source},
                    {"bytes", file.bytes},
                    {"sha256", file.sha256}});
  }
  OutputFile out(fmt::format("{}/{}", folder, kFetchedRecord), {.what = "what was fetched"});
  out.write(nlohmann::json{{"name", manifest.name}, {"files", list}}.dump(2) + "\n");
  out.commit();
}

// Refuses inputs that lie in the folder, because the folder is replaced as a whole.
void check_apart(const std::string& place, const FetchOptions& options) {
  std::vector<std::string> inputs = options.from;
  if (!options.manifest.empty()) inputs.push_back(options.manifest);
  const fs::path folder = fs::weakly_canonical(place);
  for (const std::string& input : inputs) {
    const fs::path path = fs::weakly_canonical(input);
    if (std::ranges::mismatch(folder, path).in1 != folder.end()) continue;
    refuse(input, fmt::format("it in {}, which --overwrite replaces", place), "it elsewhere",
           "copy it to another folder first");
  }
}

}  // namespace

std::vector<FetchedFile> fetch(const Manifest& manifest, const FetchOptions& options) {
  const std::string place = folder_of(manifest);
  if (fs::exists(place) && !options.overwrite) {
    throw with_hint(usage_error("{}: the data set is here already", place),
                    "--overwrite fetches it again");
  }
  try {
    check_apart(place, options);
    NewFolder folder(place);
    std::vector<FetchedFile> files;
    files.push_back(bring(manifest, manifest.train, options, folder.path()));
    if (manifest.test) files.push_back(bring(manifest, *manifest.test, options, folder.path()));
    check_content(manifest, folder.path(), options.threads);
    record(manifest, files, folder.path());
    folder.keep(options.overwrite);
    for (FetchedFile& file : files) {
      file.path = place + "/" + fs::path(file.path).filename().string();
    }
    return files;
  } catch (const fs::filesystem_error& error) {
    throw runtime_failure("{}: cannot write the data set: {}", place, error.code().message());
  }
}

}  // namespace hetsgd
