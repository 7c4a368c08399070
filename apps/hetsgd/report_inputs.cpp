#include "report_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/json_file.hpp"
#include "core/logging.hpp"
#include "result/validate.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kIndex = ".index.jsonl";

// Every file below `folder` whose name ends so, by path.
std::vector<std::string> files_below(const std::string& folder, std::string_view ending) {
  std::vector<std::string> files;
  try {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().native().ends_with(ending) && entry.is_regular_file()) {
        files.push_back(entry.path().native());
      }
    }
  } catch (const fs::filesystem_error& error) {
    throw data_error("{}: cannot read the folder: {}", folder, error.code().message());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Which file is meant, however its path is spelled.
std::string spelling(const fs::path& path) {
  std::error_code error;
  const fs::path known = fs::weakly_canonical(path, error);
  return error ? path.native() : known.native();
}

std::string text_at(const json& line, const char* key) {
  return line.contains(key) && line[key].is_string() ? line[key].get<std::string>() : "";
}

struct SweepNames {
  std::string setup, case_name;
};

// A line that says nothing of a run (also one that was cut off) names none.
void add_names(const json& line, const fs::path& folder, std::map<std::string, SweepNames>& names) {
  if (!line.is_object()) return;
  const std::string file = text_at(line, "file"), id = text_at(line, "id");
  if (file.empty() && id.empty()) return;
  names[spelling(folder / (file.empty() ? "runs/" + id + ".json" : file))] = {
      text_at(line, "setup"), text_at(line, "case")};
}

// By the spelling of the runs' files.
std::map<std::string, SweepNames> names_of_sweeps(const std::vector<std::string>& operands) {
  std::map<std::string, SweepNames> names;
  for (const std::string& operand : operands) {
    if (!fs::is_directory(operand)) continue;
    for (const std::string& index : files_below(operand, kIndex)) {
      std::ifstream lines(index);
      for (std::string text; std::getline(lines, text);) {
        add_names(json::parse(text, nullptr, false), fs::path(index).parent_path(), names);
      }
    }
  }
  return names;
}

// The trials of a sweep's tunings are results, but not of the experiment.
void leave_out_trials(const std::string& folder, std::vector<std::string>& files) {
  for (const std::string& index : files_below(folder, kIndex)) {
    const std::string trials = (fs::path(index).parent_path() / "trials/").native();
    std::erase_if(files, [&](const std::string& file) { return file.starts_with(trials); });
  }
}

}  // namespace

std::vector<std::string> report_files(const std::vector<std::string>& operands) {
  std::vector<std::string> files;
  for (const std::string& operand : operands) {
    if (!fs::is_directory(operand)) {
      files.push_back(operand);
      continue;
    }
    std::vector<std::string> below = files_below(operand, ".json");
    leave_out_trials(operand, below);
    files.insert(files.end(), below.begin(), below.end());
  }
  return files;
}

ReportInputs read_report_inputs(const std::vector<std::string>& operands) {
  const std::map<std::string, SweepNames> names = names_of_sweeps(operands);
  ReportInputs inputs;
  for (const std::string& path : report_files(operands)) {
    const bool given = std::find(operands.begin(), operands.end(), path) != operands.end();
    try {
      if (const std::string kind = other_kind(read_json(path)); !kind.empty()) {
        log_info("{}: skipped, it is a {} and no result", path, kind);
        continue;
      }
      const auto found = names.find(spelling(path));
      const SweepNames name = found == names.end() ? SweepNames{} : found->second;
      inputs.results.push_back({path, read_result(path), name.setup, name.case_name});
    } catch (const Error& error) {
      if (given) throw;
      inputs.notes.emplace_back(error.what());
      warn("left out: {}", error.what());
    }
  }
  return inputs;
}

}  // namespace hetsgd
