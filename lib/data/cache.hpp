// The binary cache of parsed files. It never causes an error: a failure becomes a note, and the
// text is parsed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/non_copyable.hpp"
#include "data/load_options.hpp"

namespace hetsgd {

// One file's place in the cache. The key is a hash of the file's bytes, of the options that affect
// parsing (format, index base, task; for click data the vocabulary, for text its rules and kinds of
// tokens) and of the binary format's version.
class CacheEntry {
 public:
  // `source_hash` and `source_bytes` describe the file as it lies on disk. `clicks` is true if it
  // may be click data.
  CacheEntry(const std::string& directory, std::uint64_t source_hash, std::uint64_t source_bytes,
             const LoadOptions& options, bool clicks = false);

  // The cached data, or nothing; note() then says why if a file was there. The data lie in the
  // mapped file where it can be mapped, so that several processes of one machine share them. With a
  // choice, these rows alone are read into memory (decode_binary_rows).
  std::optional<ParsedData> read(const RowChoice& choice);

  // Lets one process build the entry while all others wait and then read it. The constructor blocks
  // until it has the lock; a process that dies releases it. Without a cache or without support for
  // locks it holds nothing, and every process builds the data.
  class Lock : NonCopyable {
   public:
    explicit Lock(const CacheEntry& entry);
    ~Lock();

   private:
    std::string path_;
    int file_ = -1;
  };

  // Writes the data under the key, creating the directory. On failure note() says why. Anything
  // there that is not a regular file (a pipe, a device) is removed, because it could not be read
  // back.
  void write(const ParsedData& parsed);

  const std::string& note() const { return note_; }
  const std::string& path() const { return path_; }
  std::uint64_t source_hash() const { return source_hash_; }

 private:
  std::string directory_;
  std::string path_;
  std::string note_;
  std::uint64_t source_hash_ = 0;
  std::uint64_t key_ = 0;
};

}  // namespace hetsgd
