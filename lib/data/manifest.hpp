// Data sets by name: a manifest (datasets/NAME.json) says where a data set's files come from and what
// they hold. `hetsgd data fetch NAME` brings them (data/fetch.hpp); `--train NAME --test NAME` then
// mean the files that it has brought.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/load.hpp"

namespace hetsgd {

// What `hetsgd data fetch` writes beside the files: where they came from.
inline constexpr std::string_view kFetchedRecord = "fetched.json";

// One file of a data set. What the manifest does not know is null there, and empty here.
struct ManifestFile {
  std::string name;  // as it is kept, and looked for in --from
  std::optional<std::string> address;
  std::optional<std::string> sha256;  // 64 hexadecimal digits
  std::optional<std::uint64_t> bytes;
  std::uint64_t rows = 0;
  std::optional<std::uint64_t> nonzeros;
};

struct Manifest {
  std::string name;
  std::string page;         // where a person reads about it
  std::string preparation;  // what has to be done with a download before it is these files
  DataFormat format = DataFormat::xc;
  Task task = Task::multilabel;
  // Columns, of both parts together; of click data those of numbers and of fields.
  std::uint64_t features = 0, labels = 0;
  ManifestFile train;
  std::optional<ManifestFile> test;  // none: --test tail:1/7 holds out training rows

  // Errors: data, there is no test file.
  const ManifestFile& part(DataPart part) const;
};

// Of the manifests that are part of the program.
std::vector<std::string> manifest_names();
// Whether `text` means a manifest: the name of one that is part of the program, where no file has this
// name; or the path of one, which ends with .json.
bool is_manifest(const std::string& text);
// Errors: data, a manifest that is none, by file, key, found and expected.
Manifest read_manifest(const std::string& name_or_path);

// Where fetched data sets lie, a folder each: $HETSGD_DATASETS_DIR, else $XDG_DATA_HOME/hetsgd, else
// ~/.local/share/hetsgd. Errors: usage, none of them is set.
std::string datasets_folder();
std::string folder_of(const Manifest& manifest);
// The file of this part. It need not be there.
std::string fetched_path(const Manifest& manifest, DataPart part);
// The same. Errors: data, it has not been fetched, with the command that does it.
std::string fetched_file(const Manifest& manifest, DataPart part);

}  // namespace hetsgd
