#include "experiment/result_file.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/logging.hpp"
#include "core/output_file.hpp"
#include "result/output.hpp"
#include "result/validate.hpp"

namespace hetsgd {

using nlohmann::json;

std::string first_difference(const json& a, const json& b) {
  for (const auto& [key, value] : a.items()) {
    if (!b.contains(key) || b[key] != value) return key;
  }
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) return key;
  }
  return "";
}

ResultFile::ResultFile(const TrainOptions& options, const ResultOptions& result)
    : path_(options.output), resume_(options.resume && !options.overwrite), options_(result) {}

bool ResultFile::has_result_of(json config) const {
  if (!resume_ || path_.empty() || is_stream(path_)) return false;
  if (!std::filesystem::is_regular_file(path_)) return false;
  json earlier = read_result(path_);
  if (options_.redact) {  // as the result will be
    redact_paths(earlier["config"]);
    redact_paths(config);
  }
  const std::string key = first_difference(earlier["config"], config);
  if (!key.empty()) {
    throw with_hint(
        usage_error("--resume: {} holds a run of another configuration: {} differs", path_, key),
        "--overwrite replaces it");
  }
  const std::string status = earlier["status"];
  const bool done = status == "completed" || status == "target_reached" || status == "diverged";
  log_info("{}: {}", path_,
           done ? "has this run's result, nothing to do"
                : "holds the same run with status " + status + ", running it again");
  return done;
}

void ResultFile::write(const Record& record) {
  const bool running = record.status == Status::running;
  const bool interrupted = record.status == Status::aborted || record.status == Status::time_limit;
  const auto now = std::chrono::steady_clock::now();
  if (path_.empty() || (running && (now < next_ || is_stream(path_)))) return;
  failure_.reset();
  try {
    write_result(path_, result_json(record, options_), !running && !interrupted);
  } catch (const Error& error) {
    if (!warned_ && running) warn("{}; the run goes on", error.what());
    warned_ = true;
    failure_ = error;
  }
  next_ = now + std::chrono::milliseconds(500);
}

void ResultFile::check() const {
  if (failure_) throw *failure_;
}

}  // namespace hetsgd
