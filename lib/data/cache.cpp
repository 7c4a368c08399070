#include "data/cache.hpp"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "core/error.hpp"
#include "core/output_file.hpp"
#include "data/binary.hpp"
#include "data/source.hpp"

namespace hetsgd {

CacheEntry::CacheEntry(const std::string& directory, std::string_view source,
                       const LoadOptions& options)
    : directory_(directory), source_hash_(content_hash(source)) {
  const std::string key = fmt::format("{} {:016x} {} format {} base {} task {}", kBinaryVersion,
                                      source_hash_, source.size(), static_cast<int>(options.format),
                                      static_cast<int>(options.index_base),
                                      options.task ? static_cast<int>(*options.task) : -1);
  key_ = content_hash(key);
  if (!directory_.empty()) path_ = fmt::format("{}/{:016x}.hsgd", directory_, key_);
}

std::optional<ParsedData> CacheEntry::read() {
  std::error_code ignored;
  if (path_.empty() || !std::filesystem::exists(path_, ignored)) return std::nullopt;
  try {
    const FileBytes file(path_);
    DecodedBinary decoded = decode_binary(file.bytes(), path_);
    if (decoded.key == key_ && decoded.parsed.data.content_hash == source_hash_) {
      return std::move(decoded.parsed);
    }
    note_ = fmt::format("foreign cache rebuilt: {}: belongs to other data", path_);
  } catch (const Error& error) {
    note_ = fmt::format("damaged cache rebuilt: {}", error.what());
  }
  return std::nullopt;
}

void CacheEntry::write(const ParsedData& parsed) {
  if (path_.empty()) return;
  try {
    std::filesystem::create_directories(directory_);
    OutputFile file(path_);
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
