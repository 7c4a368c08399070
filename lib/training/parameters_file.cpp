#include "training/parameters_file.hpp"

#include "core/output_file.hpp"

namespace hetsgd {

std::vector<float> whole_model(std::span<const float> parameters, const RowSource* rows) {
  std::vector<float> all;
  if (rows) all = read_all(*rows);
  all.insert(all.end(), parameters.begin(), parameters.end());
  return all;
}

void write_parameters(const std::string& path, std::span<const float> parameters,
                      const char* what) {
  OutputFile file(path, {.what = what});
  file.write({reinterpret_cast<const char*>(parameters.data()), parameters.size_bytes()});
  file.commit();
}

}  // namespace hetsgd
