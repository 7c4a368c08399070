// CallMemory has the recorded calls while the run goes on: in memory up to a bound, then in a file
// without a name. The file disappears with the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/non_copyable.hpp"

namespace hetsgd {

// A run of 20 us per call on two workers reaches this bound in about half a minute.
inline constexpr std::uint64_t kMostCallBytes = std::uint64_t{256} << 20;

struct CallMemoryOptions {
  std::uint64_t most_bytes = kMostCallBytes;
  std::string folder{};  // of the file. Empty: there is none, and memory has no bound
};

// The account of memory, and the file. Any thread.
class CallMemory : NonCopyable {
 public:
  explicit CallMemory(CallMemoryOptions options) : options_(std::move(options)) {}
  ~CallMemory();

  void grow(std::uint64_t bytes) { bytes_ += bytes; }
  void shrink(std::uint64_t bytes) { bytes_ -= bytes; }
  // Whether whatever is complete should go to the file.
  bool is_full() const { return bytes_ > options_.most_bytes && !options_.folder.empty(); }
  // Writes to the file, and returns the place in it. None: the file cannot be written. Then memory
  // has no bound from now on, and a warning says why.
  std::optional<std::uint64_t> write(std::span<const std::byte> bytes);
  // Reads what write() has written. Throws Error(runtime) if the file cannot be read.
  void read(std::uint64_t place, std::span<std::byte> bytes) const;
  // Whether the file has anything.
  bool has_file() const { return size_ > 0; }

 private:
  bool open();
  void give_up(const char* doing, int error_number);

  const CallMemoryOptions options_;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::mutex mutex_;  // guards opening
  std::atomic<int> file_ = -1;
  std::atomic<bool> failed_ = false;
  std::atomic<std::uint64_t> size_ = 0;
};

}  // namespace hetsgd
