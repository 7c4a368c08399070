#include "data/dataset_files.hpp"

#include "data/generate.hpp"
#include "data/image_files.hpp"
#include "data/manifest.hpp"

namespace hetsgd {

std::vector<std::string> files_of_dataset(const std::string& path) {
  if (is_generator_spec(path)) return {};
  std::vector<std::string> files = {path};
  if (is_manifest(path)) {
    const Manifest manifest = read_manifest(path);
    files.push_back(fetched_path(manifest, DataPart::train));
    if (manifest.test) files.push_back(fetched_path(manifest, DataPart::test));
  }
  for (std::size_t i = 0, named = files.size(); i < named; ++i) {
    if (const auto labels = label_file_of(files[i])) files.push_back(*labels);
  }
  return files;
}

}  // namespace hetsgd
