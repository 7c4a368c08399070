// Fetches a data set: download or copy, check, and only then put in place.
//
//   for each file: copy or download, then compare size and SHA-256
//   for both files: compare what `data info` reports with the manifest
//   if all is as expected, the folder appears under its name; else nothing is left behind
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/manifest.hpp"

namespace hetsgd {

struct FetchOptions {
  // Files, or folders that hold files of the names in the manifest. Empty: download from the
  // manifest's addresses with the program curl.
  std::vector<std::string> from;
  std::string manifest = "";   // the manifest's own file, which must not be replaced
  bool overwrite = false;      // replaces an earlier fetch of this data set
  std::optional<int> threads;  // threads that read; none: all cores
};

struct FetchedFile {
  std::string path;    // where the file lies now
  std::string source;  // where it came from
  std::uint64_t bytes = 0;
  std::string sha256{};
};

// Brings both files into folder_of(manifest) and records them in fetched.json beside them. Throws
// Error(data) if a file differs from the manifest or is in none of `from`. Throws Error(usage) if
// the data set is here already, or if there is neither an address nor `from`. Throws Error(runtime)
// if a download fails or the disk is full.
std::vector<FetchedFile> fetch(const Manifest& manifest, const FetchOptions& options);

}  // namespace hetsgd
