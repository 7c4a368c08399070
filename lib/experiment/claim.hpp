// Claims of runs. Processes that share a folder, on one host or several, agree by lock files.
//
//   free ──try_claim──> held ──released, or its owner's end──> free
//
// The owner holds the file's lock (flock), which the kernel releases whenever the owner ends. Some
// file systems keep such locks to one host. So every owner also touches its files at least every
// kHeartbeat, and other hosts see by the file's time that it lives. An unlocked file is removed at
// once if its owner was on this host, and otherwise if it was not touched for kSilence. Then one
// process succeeds in making it anew (O_EXCL).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/units.hpp"

namespace hetsgd {

class Claim {
 public:
  static constexpr Seconds kHeartbeat{10}, kSilence{60};

  // Claims `path`, and makes its folder if necessary. None: another process holds the claim. Throws
  // Error(runtime) if the file cannot be made.
  static std::optional<Claim> try_claim(const std::string& path);
  ~Claim();
  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&& other) noexcept;

  void touch() const;  // the heartbeat of the owner

 private:
  Claim(std::string path, int file) : path_(std::move(path)), file_(file) {}
  void release();

  std::string path_;
  int file_ = -1;
};

}  // namespace hetsgd
