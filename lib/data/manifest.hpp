// Data sets by name. A manifest (datasets/NAME.json) says where a data set's files come from and
// what they hold. `hetsgd data fetch NAME` brings them (data/fetch.hpp); then `--train NAME --test
// NAME` mean the fetched files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/load_options.hpp"

namespace hetsgd {

// The record that `hetsgd data fetch` writes beside the files: where they came from.
inline constexpr std::string_view kFetchedRecord = "fetched.json";

// One file of a data set. A fact that the manifest does not know is null there, and empty here.
struct ManifestFile {
  std::string name;  // its name in the folder, and in --from
  std::optional<std::string> address;
  std::optional<std::string> sha256;  // 64 hexadecimal digits
  std::optional<std::uint64_t> bytes;
  std::uint64_t rows = 0;
  std::optional<std::uint64_t> nonzeros;
};

struct Manifest {
  std::string name;
  std::string page;         // a web page for the reader
  std::string preparation;  // how to make these files from a download
  DataFormat format = DataFormat::xc;
  Task task = Task::multilabel;
  // Columns of the training part; for click data the dense columns and the fields.
  std::uint64_t features = 0, labels = 0;
  ManifestFile train;
  std::optional<ManifestFile> test;  // none: --test tail:1/7 holds out training rows

  // Throws Error(data) if there is no test file.
  const ManifestFile& part(DataPart part) const;
};

// The names of the manifests that are part of the program.
std::vector<std::string> manifest_names();
// Whether `text` means a manifest: the name of one that is part of the program, if no file has this
// name, or the path of one, which ends with .json.
bool is_manifest(const std::string& text);
// Throws Error(data) for an invalid manifest, naming file, key, found and expected.
Manifest read_manifest(const std::string& name_or_path);

// The folder of fetched data sets, which has one folder for each: $HETSGD_DATASETS_DIR, else
// $XDG_DATA_HOME/hetsgd, else ~/.local/share/hetsgd. Throws Error(usage) if none of them is set.
std::string datasets_folder();
std::string folder_of(const Manifest& manifest);
// The path of the file of this part, which need not exist.
std::string fetched_path(const Manifest& manifest, DataPart part);
// The same, but the file must exist. Throws Error(data) if it has not been fetched, naming the
// command that fetches it.
std::string fetched_file(const Manifest& manifest, DataPart part);

}  // namespace hetsgd
