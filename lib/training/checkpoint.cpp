#include "training/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.hpp"
#include "core/output_file.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "training/plan.hpp"

namespace hetsgd {

namespace {

constexpr std::string_view kBudget = "Budget and targets";

// Lengths of the schedule, which may hang on the budget: what they come to is compared.
constexpr std::array<std::string_view, 3> kLengths = {"decay_epochs", "warmup_epochs",
                                                      "warmup_share"};

// Budget and targets may differ between a run and the one that goes on from it.
bool may_differ(const OptionSet& set, const std::string& name) {
  const Option* const option = set.find(name);
  return (option != nullptr && option->group == kBudget) || std::ranges::count(kLengths, name) > 0;
}

// The epochs at which the warm-up and the decay of the learning rate end; null: no decay.
nlohmann::json lengths_of(const Schedule& schedule) {
  const auto& decay = schedule.decay_epochs;
  return {{"warmup_epochs", schedule.warmup_epochs},
          {"decay_epochs", decay ? nlohmann::json(*decay) : nullptr}};
}

std::string revision() {
  return fmt::format("{}{}", git_revision(), git_dirty() ? " with changes" : "");
}

nlohmann::json data_hash(const DatasetPtr& data) {
  return data ? nlohmann::json(hash_text(data->content_hash)) : nullptr;
}

}  // namespace

void Checkpoints::read() {
  if (!resumes()) return;
  const std::string& path = options_.resume_from;
  read_ = read_checkpoint(path);
  const nlohmann::json& config = read_->header.at("config");
  for (const auto& [name, value] : record_.config.items()) {
    if (may_differ(set_, name) || config.value(name, nlohmann::json()) == value) continue;
    const Option* const option = set_.find(name);
    throw with_hint(usage_error("--resume-from: {} was written with {} {}, but this run has {}",
                                path, option ? option->flag() : name,
                                config.value(name, nlohmann::json()).dump(), value.dump()),
                    "only budget, targets and output may differ");
  }
  const int rank = options_.processes().rank();
  if (rank == 0) return;
  const auto slot = read_->header.at("slot").get<std::uint64_t>();
  // Files of ranks keep their names when `path` becomes an earlier generation.
  const auto written_as = read_->header.at("file").get<std::string>();
  const std::string mine =
      rank_file(std::filesystem::path(follow_links(path)).replace_filename(written_as), rank, slot);
  Checkpoint own = read_checkpoint(mine);
  if (hash_text(own.hash) != read_->header.at("ranks").at(at(rank) - 1).get<std::string>()) {
    throw data_error("{}: found another hash than {} names for it", mine, path);
  }
  own.saved.common = std::move(read_->saved.common);
  read_->saved = std::move(own.saved);
}

std::vector<std::string> Checkpoints::check_data() const {
  if (!read_) return {};
  const nlohmann::json& header = read_->header;
  const auto check = [&](const char* which, const DatasetPtr& data) {
    if (header.at("data").at(which) == data_hash(data)) return;
    throw with_hint(data_error("--resume-from: {} was written by a run on another {} set",
                               options_.resume_from, which),
                    fmt::format("the file of --{} has changed since", which));
  };
  check("train", record_.train);
  check("test", record_.test);
  check_schedule();
  if (header.at("revision") == revision()) return {};
  return {
      fmt::format("the checkpoint was written by revision {} of hetsgd, and this is {}: the run "
                  "may differ from one that was not interrupted",
                  header.at("revision").get<std::string>(), revision())};
}

// A share of the decay is the same once the decay is.
void Checkpoints::check_schedule() const {
  const nlohmann::json& then = read_->header.at("schedule");
  const nlohmann::json now = lengths_of(schedule_of(options_, record_.train->totals().rows));
  for (const std::string name : {"decay_epochs", "warmup_epochs"}) {
    if (then.at(name) == now.at(name)) continue;
    const bool decay = name == "decay_epochs";
    throw with_hint(
        usage_error("--resume-from: in the run that wrote {} the {} of the learning rate ends at "
                    "epoch {}, but in this one at epoch {}",
                    options_.resume_from, decay ? "decay" : "warm-up", then.at(name).dump(),
                    now.at(name).dump()),
        decay ? fmt::format("--decay-epochs {} keeps the schedule, whatever the budget",
                            then.at(name).dump())
              : fmt::format("--warmup-epochs {} in place of --warmup-share keeps the schedule, "
                            "whatever the budget",
                            then.at(name).dump()));
  }
}

nlohmann::json Checkpoints::header() const {
  return {{"config", record_.config},
          {"schedule", lengths_of(schedule_of(options_, record_.train->totals().rows))},
          {"data", {{"train", data_hash(record_.train)}, {"test", data_hash(record_.test)}}},
          {"cluster", record_.cluster},
          {"segment", record_.segments.size()},
          {"revision", revision()}};
}

// The numbers of the segment and of the slot are rank 0's, since other ranks keep no record.
void Checkpoints::write(const SavedRun& saved) {
  if (options_.checkpoint.empty()) return;
  ProcessGroup& processes = options_.processes();
  const std::string& path = options_.checkpoint;
  const int rank = processes.rank();
  const auto segment = processes.agree([&] { return std::uint64_t{record_.segments.size()}; });
  const auto slot = processes.agree([&] {
    const bool has_others = rank == 0 && processes.size() > 1;
    return has_others ? free_slot(path, options_.checkpoint_keep) : 0;
  });
  const auto common = processes.agree([&] { return hash_of_fields(saved.common); });
  processes.agree([&] {
    if (rank == 0) return;
    if (!saved.common.empty() && hash_of_fields(saved.common) != common) {
      throw CheckFailure("the common fields of the workers differ at the end of a segment");
    }
    nlohmann::json head = header();
    head["segment"] = segment;
    write_checkpoint(rank_file(path, rank, slot), head, saved, 1);
  });
  processes.agree([&] {
    if (rank != 0) return;
    nlohmann::json head = header();
    head["file"] = std::filesystem::path(follow_links(path)).filename();
    head["slot"] = slot;
    head["ranks"] = nlohmann::json::array();
    for (int other = 1; other < processes.size(); ++other) {
      head["ranks"].push_back(hash_text(checkpoint_hash(rank_file(path, other, slot))));
    }
    write_checkpoint(path, head, saved, options_.checkpoint_keep);
  });
}

}  // namespace hetsgd
