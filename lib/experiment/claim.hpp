// Claims of runs: processes on one folder, of one host or of several, agree by lock files.
//
//   free ──try_claim──> held ──released, or its owner's end──> free
//
// The owner holds the file's lock (flock), which the kernel gives back when the owner ends in
// whatever way; where file systems keep such locks to one host, others see by the file's time that
// its owner lives: every owner touches its files at least each kHeartbeat. A file that nobody locks
// is taken away at once if its owner was of this host, and otherwise when it was not touched for
// kSilence; then one process succeeds in making it anew (O_EXCL).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/units.hpp"

namespace hetsgd {

class Claim {
 public:
  static constexpr Seconds kHeartbeat{10}, kSilence{60};

  // Makes the folder of `path` if it is not there. None: somebody else runs it. Errors: runtime
  // (the file cannot be made).
  static std::optional<Claim> try_claim(const std::string& path);
  ~Claim();
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&& other) noexcept;

  void touch() const;  // the heartbeat

 private:
  Claim(std::string path, int file) : path_(std::move(path)), file_(file) {}
  void release();

  std::string path_;
  int file_ = -1;
};

}  // namespace hetsgd
