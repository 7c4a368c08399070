#include "data/cache.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/byte_stream.hpp"
#include "core/error.hpp"
#include "core/output_file.hpp"
#include "data/binary.hpp"
#include "data/source.hpp"

namespace hetsgd {

namespace {

// The part of the key for the categories of click data and for the kinds of tokens; empty for the
// default options of click data.
std::string vocabulary_key(const LoadOptions& options) {
  const VocabularyRules& rules = options.vocabulary;
  std::string key;
  if (rules.min_frequency.value_or(kUsualClickFrequency) != kUsualClickFrequency) {
    key += fmt::format(" min frequency {}", *rules.min_frequency);
  }
  if (rules.hash_size) key += fmt::format(" hash size {}", *rules.hash_size);
  if (options.held_out.which != HeldOut::Which::none) {
    key += fmt::format(" held out {} {}", static_cast<int>(options.held_out.which),
                       options.held_out.share);
  }
  if (options.vocabulary_of) {
    const CategoricalFields<View>& fields = options.vocabulary_of->fields;
    key += fmt::format(" vocabulary {:016x} {:016x}",
                       content_hash(text_of(std::as_bytes(fields.first))),
                       content_hash(text_of(std::as_bytes(fields.value))));
  }
  if (options.format == DataFormat::text) {
    key += fmt::format(" {} whole names {:016x}", key_of(options.text),
                       content_hash(fmt::format("{}", fmt::join(options.label_names, "\0"))));
  }
  return key;
}

}  // namespace

CacheEntry::CacheEntry(const std::string& directory, std::uint64_t source_hash,
                       std::uint64_t source_bytes, const LoadOptions& options, bool clicks)
    : directory_(directory), source_hash_(source_hash) {
  std::string key = fmt::format("{} {:016x} {} format {} base {} task {}", kBinaryVersion,
                                source_hash_, source_bytes, static_cast<int>(options.format),
                                static_cast<int>(options.index_base),
                                options.task ? static_cast<int>(*options.task) : -1);
  if (clicks || options.format == DataFormat::text) key += vocabulary_key(options);
  key_ = content_hash(key);
  path_ = fmt::format("{}/{:016x}.hsgd", directory_, key_);
}

std::optional<ParsedData> CacheEntry::read(const RowChoice& choice) {
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) return std::nullopt;
  if (!std::filesystem::is_regular_file(path_, ignored)) {
    note_ = fmt::format("damaged cache rebuilt: {}: not a regular file", path_);
    return std::nullopt;
  }
  try {
    const DataFile file(path_, {.noun = "cached data file"});
    DecodedBinary decoded = choice.rows ? decode_binary_rows(file, path_, choice)
                                        : decode_binary(file, path_, file.map());
    if (decoded.key == key_ && decoded.parsed.data.content_hash == source_hash_) {
      return std::move(decoded.parsed);
    }
    note_ = fmt::format("foreign cache rebuilt: {}: belongs to other data", path_);
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;  // thrown by the choice itself
    note_ = fmt::format("damaged cache rebuilt: {}", error.what());
  }
  return std::nullopt;
}

CacheEntry::Lock::Lock(const CacheEntry& entry) : path_(fmt::format("{}.lock", entry.path_)) {
  std::error_code ignored;
  std::filesystem::create_directories(entry.directory_, ignored);
  while (true) {
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) return;
    int failed = 0;
    do failed = flock(file_, LOCK_EX);
    while (failed != 0 && errno == EINTR);
    // Its last holder has removed the file that we waited for: lock the next one.
    struct stat ours {
    }, there{};
    const bool same = fstat(file_, &ours) == 0 && stat(path_.c_str(), &there) == 0 &&
                      ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
    if (failed != 0 || same) return;
    close(file_);
  }
}

CacheEntry::Lock::~Lock() {
  if (file_ < 0) return;
  unlink(path_.c_str());  // removed before the lock is released
  close(file_);
}

void CacheEntry::write(const ParsedData& parsed) {
  try {
    std::filesystem::create_directories(directory_);
    const auto found = std::filesystem::symlink_status(path_).type();
    if (found != std::filesystem::file_type::not_found &&
        found != std::filesystem::file_type::regular) {
      std::filesystem::remove(path_);  // removes a link, not its target
    }
    OutputFile file(path_, {.what = "the cache", .follow = false});
    encode_binary(parsed.data, parsed.report, key_,
                  [&](std::string_view piece) { file.write(piece); });
    file.commit();
  } catch (const std::filesystem::filesystem_error& error) {
    note_ = fmt::format("no cache written: {}: {}", directory_, error.code().message());
  } catch (const Error& error) {
    note_ = fmt::format("no cache written: {}", error.what());
  }
}

}  // namespace hetsgd
