#include "data/manifest.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "core/builtin_file.hpp"
#include "core/error.hpp"
#include "core/host.hpp"
#include "core/json_fields.hpp"
#include "core/text.hpp"

namespace hetsgd {

namespace {

namespace fs = std::filesystem;

constexpr FieldRange kCounts{0, 1e15, ""};
constexpr FieldRange kRowCounts{1, 4294967295.0, ""};

std::optional<std::string> text_or_null(const JsonFields& fields, const std::string& key) {
  return fields.is_null(key) ? std::nullopt : std::optional(fields.text(key));
}

// Whether a folder can have an entry of this name that stays within the folder. A control byte
// would end the name for the system, or command the terminal. Commands take a name that begins with
// - for an option, and with ~ for another folder, and nobody sees a blank at an end.
bool is_plain_name(const std::string& name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  const auto is_sign = [](char c) { return c > ' ' && c < '\x7f' && std::isalnum(c) == 0; };
  return !name.empty() && (name[0] == '_' || !is_sign(name[0])) && trim(name) == name &&
         name.find('/') == std::string::npos && std::ranges::none_of(name, is_control);
}

ManifestFile read_file_of(const JsonFields& fields) {
  fields.allow({"name", "address", "sha256", "bytes", "rows", "nonzeros"});
  ManifestFile file{.name = fields.text("name"),
                    .address = text_or_null(fields, "address"),
                    .sha256 = text_or_null(fields, "sha256"),
                    .bytes = fields.number_or_none("bytes", kCounts),
                    .rows = static_cast<std::uint64_t>(fields.number("rows", kRowCounts)),
                    .nonzeros = fields.number_or_none("nonzeros", kCounts)};
  if (!is_plain_name(file.name) || file.name == kFetchedRecord) {
    fields.refuse("name", fmt::format("the name of a file without its folder, other than {}; a "
                                      "letter, a digit or _ comes first",
                                      kFetchedRecord));
  }
  if (file.address && !file.address->starts_with("https://") &&
      !file.address->starts_with("http://")) {
    fields.refuse("address", "an address that begins with https:// or http://, or null");
  }
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (file.sha256 && (file.sha256->size() != 64 || !std::ranges::all_of(*file.sha256, is_digit))) {
    fields.refuse("sha256", "64 hexadecimal digits in lower case, or null");
  }
  return file;
}

}  // namespace

std::vector<std::string> manifest_names() { return names_of(builtin_manifest_files()); }

bool is_manifest(const std::string& text) {
  if (text.ends_with(".json")) return true;
  const std::vector<std::string> names = manifest_names();
  std::error_code ignored;
  return std::ranges::find(names, text) != names.end() && !fs::exists(text, ignored);
}

Manifest read_manifest(const std::string& name_or_path) {
  const JsonFields fields =
      find_json_file("data set", "data set", name_or_path, builtin_manifest_files());
  fields.allow({"name", "title", "task", "features", "labels", "format", "split", "page",
                "preparation", "licence", "paper", "train", "test"});
  const std::vector<std::string> formats = {"xc", "libsvm", "criteo"};
  const std::vector<std::string> tasks = {"multilabel", "multiclass", "binary"};
  Manifest manifest;
  manifest.name = fields.text("name");
  if (!is_plain_name(manifest.name))
    fields.refuse("name", "a name that a folder can have: a letter, a digit or _ comes first");
  manifest.page = fields.text("page");
  manifest.preparation = fields.text("preparation");
  constexpr DataFormat kFormats[] = {DataFormat::xc, DataFormat::libsvm, DataFormat::criteo};
  manifest.format = kFormats[fields.choice("format", formats, 0)];
  manifest.task = static_cast<Task>(fields.choice("task", tasks, 0));
  manifest.features = static_cast<std::uint64_t>(fields.number("features", kRowCounts));
  manifest.labels = static_cast<std::uint64_t>(fields.number("labels", kRowCounts));
  manifest.train = read_file_of(fields.object("train"));
  if (fields.is_null("test")) return manifest;
  const JsonFields test = fields.object("test");
  manifest.test = read_file_of(test);
  if (manifest.test->name == manifest.train.name) {
    test.refuse("name", "another name than that of the training file");
  }
  return manifest;
}

const ManifestFile& Manifest::part(DataPart part) const {
  if (part == DataPart::train) return train;
  if (test) return *test;
  throw with_hint(data_error("{}: the data set has no test file", name),
                  "--test tail:1/7 holds out the last training rows");
}

std::string datasets_folder() {
  std::string folder = user_folder("HETSGD_DATASETS_DIR", "XDG_DATA_HOME", ".local/share");
  if (!folder.empty()) return folder;
  throw with_hint(usage_error("no folder for data sets: HETSGD_DATASETS_DIR and HOME are not set"),
                  "set HETSGD_DATASETS_DIR to a folder");
}

std::string folder_of(const Manifest& manifest) { return datasets_folder() + "/" + manifest.name; }

std::string fetched_path(const Manifest& manifest, DataPart part) {
  return folder_of(manifest) + "/" + manifest.part(part).name;
}

std::string fetched_file(const Manifest& manifest, DataPart part) {
  std::string path = fetched_path(manifest, part);
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  throw with_hint(data_error("{}: the data set is not here: found no {}", manifest.name, path),
                  fmt::format("run: hetsgd data fetch {}", manifest.name));
}

}  // namespace hetsgd
