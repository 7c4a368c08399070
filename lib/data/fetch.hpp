// Bringing a data set here: download or copy, check, and only then put in its place.
//
//   fetch: for each file  copy or download -> size and SHA-256 -> (both files) what `data info` says
//          all as expected: the folder appears under its name; else nothing is left behind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/manifest.hpp"

namespace hetsgd {

struct FetchOptions {
  // Files, or folders with files, of the names that the manifest gives; empty: the manifest's
  // addresses, with the program curl.
  std::vector<std::string> from;
  std::string manifest = "";   // the file that the manifest was read from, which is not replaced
  bool overwrite = false;      // replaces what was fetched before
  std::optional<int> threads;  // of reading; none: all cores
};

struct FetchedFile {
  std::string path;    // where it lies now
  std::string source;  // where it came from
  std::uint64_t bytes = 0;
  std::string sha256{};
};

// Brings both files into folder_of(manifest), and writes what it got to fetched.json beside them.
// Errors: data, a file that is not as the manifest says, or that is in none of `from`; usage, it is
// here already, or there is neither an address nor `from`; runtime, a download that fails, a disk
// that is full.
std::vector<FetchedFile> fetch(const Manifest& manifest, const FetchOptions& options);

}  // namespace hetsgd
