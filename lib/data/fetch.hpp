// Fetches a data set: download or copy, check, and only then put in place.
//
//   for each file: copy or download, then compare size and SHA-256
//   for both files: compare what `data info` reports with the manifest
//   if all is as expected, the folder appears under its name; else nothing is left behind
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/manifest.hpp"

struct evp_md_ctx_st;

namespace hetsgd {

// SHA-256 (FIPS 180-4) of bytes that come in pieces, by libcrypto. Call add() for each piece, then
// value() once.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  // The hash of all so far, as 64 hexadecimal digits; the object is used up.
  std::string value();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

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
