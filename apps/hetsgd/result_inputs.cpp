#include "result_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/json_file.hpp"
#include "core/logging.hpp"
#include "experiment/sweep_folder.hpp"
#include "result/validate.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kIndex = ".index.jsonl";

bool is_index(const std::string& path) { return path.ends_with(kIndex); }

// Whether the path is a folder. A path that cannot be accessed counts as a file, because opening it
// then reports the reason.
bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// Every file below `folder` whose name ends in `ending`, sorted by path.
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

// The indexes in a folder; none if the folder may not be listed.
std::vector<std::string> indexes_in(const fs::path& folder) {
  std::vector<std::string> indexes;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    std::error_code gone;
    if (is_index(entry.path().native()) && entry.is_regular_file(gone)) {
      indexes.push_back(entry.path().native());
    }
  }
  std::sort(indexes.begin(), indexes.end());
  return indexes;
}

// The canonical path, which is the same for all spellings of a file.
std::string spelling(const fs::path& path) {
  std::error_code error;
  const fs::path known = fs::weakly_canonical(path, error);
  return error ? path.native() : known.native();
}

// The entry of a run in an index.
struct ListedRun {
  std::string file, setup, case_name;
  bool trial = false;
};

// The runs in an index.
std::vector<ListedRun> runs_of_index(const std::string& index) {
  const fs::path folder = fs::path(index).parent_path();
  std::vector<ListedRun> runs;
  const auto add = [&](const json& line) {
    const std::string file = line["file"].is_null()
                                 ? fmt::format("runs/{}.json", line["id"].get<std::string>())
                                 : line["file"].get<std::string>();
    runs.push_back(
        {(folder / file).native(), line["setup"], line["case"], line["stage"] == "tuning"});
  };
  SweepIndex(read_text_file(index, {.noun = "index"}, kMostJsonBytes), index).for_each(add);
  return runs;
}

// The indexes that may list the runs of an operand. Those of a result are in its folder or above
// it.
std::vector<std::string> indexes_of(const std::string& operand) {
  if (is_index(operand)) return {operand};
  if (is_folder(operand)) return files_below(operand, kIndex);
  const fs::path folder = fs::absolute(operand).lexically_normal().parent_path();
  std::vector<std::string> indexes = indexes_in(folder), above = indexes_in(folder.parent_path());
  indexes.insert(indexes.end(), above.begin(), above.end());
  return indexes;
}

// The place of a run in an index.
struct Place {
  ListedRun run;
  std::string index;
  std::size_t number = 0;
};

// The places of all runs in the indexes around the operands, by spelling() of the runs' files.
std::map<std::string, Place> places_of(const std::vector<std::string>& operands) {
  std::map<std::string, Place> places;
  std::set<fs::path> seen;  // folders of operands that are files
  for (const std::string& operand : operands) {
    const bool file = !is_index(operand) && !is_folder(operand);
    if (file && !seen.insert(fs::path(operand).parent_path()).second) continue;
    for (const std::string& index : indexes_of(operand)) {
      for (ListedRun& run : runs_of_index(index)) {
        const std::string spelled = spelling(run.file);
        places[spelled] = {std::move(run), index, places.size()};
      }
    }
  }
  return places;
}

struct PlacedResult {
  LoadedResult result;
  const Place* place;  // null: no index lists it
};

// Sorts each sequence of adjacent listed runs into the order of their index.
void sort_listed(std::vector<PlacedResult>& results) {
  const auto listed = [](const PlacedResult& each) { return each.place != nullptr; };
  for (auto begin = results.begin(); begin != results.end();) {
    begin = std::find_if(begin, results.end(), listed);
    const auto end = std::find_if_not(begin, results.end(), listed);
    std::stable_sort(begin, end, [](const PlacedResult& a, const PlacedResult& b) {
      return a.place->number < b.place->number;
    });
    begin = end;
  }
}

// The index of the only sweep that lists all results; empty if there is none.
std::string only_index(const std::vector<PlacedResult>& results) {
  std::set<std::string> indexes;
  for (const PlacedResult& each : results) {
    indexes.insert(each.place == nullptr ? "" : each.place->index);
  }
  return indexes.size() == 1 ? *indexes.begin() : "";
}

// Removes a sweep's own files from the list. The trials of its tunings are results, but not of the
// experiment. Its specification and its tunings are no results.
void leave_out_files_of_sweeps(const std::string& folder, std::vector<std::string>& files) {
  for (const std::string& index : files_below(folder, kIndex)) {
    const std::string stem = index.substr(0, index.size() - kIndex.size());
    const fs::path place = fs::path(index).parent_path();
    const std::string trials = (place / "trials/").native(),
                      tunings = (place / "tunings/").native();
    std::erase_if(files, [&](const std::string& file) {
      return file.starts_with(trials) || file.starts_with(tunings) ||
             file == stem + ".sweep.json" || file == stem + ".tuning.json";
    });
  }
}

// Takes title and description of a sweep from its specification beside the index.
void describe(const std::string& index, ResultInputs& inputs) {
  const std::string file = index.substr(0, index.size() - kIndex.size()) + ".sweep.json";
  std::error_code failed;
  const json specification = fs::exists(file, failed) ? specification_in(file) : json();
  if (specification.is_null()) return;
  const auto text_at = [&](const char* key) {
    const json value = specification.value(key, json());
    return value.is_string() ? value.get<std::string>() : "";
  };
  inputs.title = text_at("name");
  inputs.about = text_at("about");
}

}  // namespace

std::vector<std::string> result_files(const std::vector<std::string>& operands) {
  std::vector<std::string> files;
  for (const std::string& operand : operands) {
    if (is_index(operand)) {
      for (const ListedRun& run : runs_of_index(operand)) {
        if (!run.trial) files.push_back(run.file);
      }
    } else if (is_folder(operand)) {
      std::vector<std::string> below = files_below(operand, ".json");
      leave_out_files_of_sweeps(operand, below);
      files.insert(files.end(), below.begin(), below.end());
    } else {
      files.push_back(operand);
    }
  }
  return files;
}

ResultInputs read_result_inputs(const std::vector<std::string>& operands) {
  const std::map<std::string, Place> places = places_of(operands);
  ResultInputs inputs;
  std::vector<PlacedResult> placed;
  for (const std::string& path : result_files(operands)) {
    const bool given = std::find(operands.begin(), operands.end(), path) != operands.end();
    try {
      if (const std::string kind = other_kind(read_json(path)); !kind.empty()) {
        log_info("{}: skipped, because it is a {} and not a result", path, kind);
        continue;
      }
      const auto found = places.find(spelling(path));
      const Place* const place = found == places.end() ? nullptr : &found->second;
      const ListedRun names = place == nullptr ? ListedRun{} : place->run;
      placed.push_back({{path, read_result(path), names.setup, names.case_name}, place});
    } catch (const Error& error) {
      if (given) throw;
      inputs.notes.emplace_back(error.what());
      warn("left out: {}", error.what());
    }
  }
  sort_listed(placed);
  if (const std::string index = only_index(placed); !index.empty()) describe(index, inputs);
  for (PlacedResult& each : placed) inputs.results.push_back(std::move(each.result));
  return inputs;
}

}  // namespace hetsgd
