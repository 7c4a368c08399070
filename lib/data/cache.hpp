// The binary cache of parsed files. Never an error: what goes wrong is a note, and the text is
// parsed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "data/text_parser.hpp"

namespace hetsgd {

// One file's place in the cache. The key is a hash of the file's bytes, of the options that change
// what parsing gives (format, index base, task) and of the binary format's version.
class CacheEntry {
 public:
  // `directory` empty: no cache. `source` are the bytes of the file as they lie on disk.
  CacheEntry(const std::string& directory, std::string_view source, const LoadOptions& options);

  // The cached data, or nothing; note() then says why if a file was there.
  std::optional<ParsedData> read();

  // Writes the data under the key, creating the directory; on failure note() says why.
  void write(const ParsedData& parsed);

  const std::string& note() const { return note_; }
  const std::string& path() const { return path_; }  // empty: no cache
  std::uint64_t source_hash() const { return source_hash_; }

 private:
  std::string directory_;
  std::string path_;
  std::string note_;
  std::uint64_t source_hash_ = 0;
  std::uint64_t key_ = 0;
};

}  // namespace hetsgd
