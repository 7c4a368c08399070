// The bytes of a data file: read by place, or as a whole into memory of our own, and decompressed
// on request.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/input_file.hpp"

struct XXH3_state_s;
struct ZSTD_CCtx_s;

namespace hetsgd {

// Bytes that are read by place, as often as a reader likes. They may differ the second time, so a
// check must be made on the copy that is used.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  // Reads as many bytes as `to` holds. Throws Error(data) if they are not there (any more).
  virtual void read(std::uint64_t offset, std::span<char> to) const = 0;
};

// Bytes in memory, which must outlive this source.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, std::span<char> to) const override;

 private:
  std::string_view bytes_;
};

// One data file for as long as it lives. A pipe is read to its end at once. Throws Error(data) for
// anything that is no file (core/input_file.hpp), for content that does not fit into memory, and
// for a file that changes meanwhile.
class DataFile final : public ByteSource {
 public:
  explicit DataFile(const std::string& path, InputKind kind = {});

  std::uint64_t size() const override;
  void read(std::uint64_t offset, std::span<char> to) const override;
  // See InputFile::map().
  std::shared_ptr<const char> map() const { return file_.map(); }
  // XXH3-64 of all bytes, which are not kept.
  std::uint64_t hash();
  // All bytes, read on up to `threads` threads (none: all cores). They are the bytes that hash()
  // has read.
  std::string_view whole(std::optional<int> threads);

 private:
  void read_stream();

  InputFile file_;
  std::optional<std::uint64_t> hash_;
  std::vector<char> stream_;  // the content of a pipe
  std::unique_ptr<char[]> whole_;
};

// Throws Error(data) if `bytes` exceed the machine's free memory, or its total memory. `what` says
// what needs them, for example "the text"; `hint` says how the user gets by with less.
enum class MemoryLimit { available, total };
void require_memory(double bytes, const std::string& path, std::string_view what,
                    MemoryLimit limit = MemoryLimit::available,
                    std::string hint = "use a machine with more memory, or a part of the file");

// XXH3-64 of the bytes.
std::uint64_t content_hash(std::string_view bytes);

// XXH3-64 of bytes that come in pieces.
class RunningHash {
 public:
  RunningHash();
  void add(std::string_view bytes);
  std::uint64_t value() const;  // of all bytes so far

 private:
  std::unique_ptr<XXH3_state_s, void (*)(XXH3_state_s*)> state_;
};

// The last component of a path.
std::string file_name(const std::string& path);

// The decompressed bytes of all streams in `bytes` (compressors and `cat` may leave several).
// Throws Error(data) naming `path` and what is wrong if the stream is damaged or cut off.
std::string decompress(std::string_view bytes, Compression compression, const std::string& path);
// The same for a file whose beginning is of use alone: if a zstd stream is cut off, `cut` becomes
// true, and the result is the text up to there. Other damage is the same error.
std::string decompress_start(std::string_view bytes, const std::string& path, bool& cut);
// Makes one zstd stream with a checksum of text that comes in parts. `sink` gets the bytes.
class ZstdWriter {
 public:
  explicit ZstdWriter(std::function<void(std::string_view)> sink);
  void add(std::string_view text);
  // Ends the stream. To be called once, after all text.
  void finish();

 private:
  void compress(std::string_view text, bool last);

  const std::function<void(std::string_view)> sink_;
  const std::unique_ptr<ZSTD_CCtx_s, std::size_t (*)(ZSTD_CCtx_s*)> context_;
  std::string out_;
};

}  // namespace hetsgd
