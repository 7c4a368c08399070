// The binary cache of parsed files. Never an error: what goes wrong is a note, and the text is
// parsed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/non_copyable.hpp"
#include "data/load.hpp"

namespace hetsgd {

// One file's place in the cache. The key is a hash of the file's bytes, of the options that change
// what parsing gives (format, index base, task; of click data the vocabulary) and of the binary
// format's version.
class CacheEntry {
 public:
  // `source_hash`, `source_bytes`: of the file as it lies on disk. `clicks`: it may be click data.
  CacheEntry(const std::string& directory, std::uint64_t source_hash, std::uint64_t source_bytes,
             const LoadOptions& options, bool clicks = false);

  // The cached data, or nothing; note() then says why if a file was there. They lie in the mapped
  // file where it can be mapped: several processes of one machine share them. With a choice: these
  // rows alone (decode_binary_rows), in memory.
  std::optional<ParsedData> read(const RowChoice& choice);

  // Keeps the other processes out while one builds the entry, so that all others wait for it and
  // read. Waits until it has the lock; a process that dies lets go of it. Holds nothing where there
  // is no cache or locks are not to be had: then everybody builds.
  class Lock : NonCopyable {
   public:
    explicit Lock(const CacheEntry& entry);
    ~Lock();

   private:
    std::string path_;
    int file_ = -1;
  };

  // Writes the data under the key, creating the directory; on failure note() says why. What lies
  // there and is no file (a pipe, a device) is removed: nobody could read it back.
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
