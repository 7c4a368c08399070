#include "training/checkpoint.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "core/error.hpp"
#include "core/input_file.hpp"
#include "core/output_file.hpp"
#include "core/rank_index.hpp"
#include "core/text.hpp"
#include "core/version.hpp"
#include "training/plan.hpp"

namespace hetsgd {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kAlignment = 64;

struct Head {
  std::array<char, 8> magic = kCheckpointMagic;
  std::uint32_t version = 2;
  std::uint32_t byte_order = 0x01020304;
  std::uint64_t header_bytes = 0;
};
struct Foot {
  std::uint64_t file_bytes = 0;
  std::uint64_t hash = 0;  // of head and header
};

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t aligned(std::uint64_t at) { return (at + kAlignment - 1) / kAlignment * kAlignment; }

template <class T>
std::string_view bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// fn(owner, fields) for all sets of fields.
template <class Saved, class Fn>
void for_each_owner(Saved& saved, const Fn& fn) {
  fn("common", saved.common);
  fn("shared", saved.shared);
  fn("run", saved.run);
  fn("cluster", saved.cluster);
  for (auto& [rank, fields] : saved.workers) fn(fmt::format("worker {}", rank), fields);
}

std::uint64_t hash_with(std::string_view head, std::string_view header) {
  return XXH3_64bits_withSeed(header.data(), header.size(), XXH3_64bits(head.data(), head.size()));
}

nlohmann::json fields_of(const SavedRun& saved, std::uint64_t& end) {
  nlohmann::json fields = nlohmann::json::array();
  for_each_owner(saved, [&](const std::string& owner, const SavedFields& all) {
    for (const auto& [name, bytes] : all) {
      fields.push_back({{"owner", owner},
                        {"name", name},
                        {"bytes", bytes.span().size()},
                        {"begin", end},
                        {"xxh3", hash_text(hash_of(bytes.span()))}});
      end = aligned(end + bytes.span().size());
    }
  });
  return fields;
}

nlohmann::json starts_of(const SavedRun& saved) {
  nlohmann::json all = nlohmann::json::array();
  for (const WorkerStart& start : saved.start) {
    const auto bytes = to_bytes(start.clock, start.spent);
    const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
    all.push_back(std::vector<std::uint8_t>(first, first + bytes.size()));
  }
  return all;
}

// Renames PATH.1 to PATH.2 and so on. PATH itself stays, and gets a second name, so that there is a
// file of this name at every moment.
void keep_checkpoints(const std::string& path, std::uint64_t keep) {
  const std::vector<std::string> names = generations(path, keep);
  std::error_code failed;
  // The second name is left from a replacement that has failed.
  if (keep < 2 || fs::equivalent(names[0], names[1], failed)) return;
  const std::string second = temporary_name(names[0]);
  fs::create_hard_link(names[0], second, failed);
  if (failed) fs::copy_file(names[0], second, failed);
  for (std::size_t age = names.size() - 1; !failed && age > 1; --age) {
    put_in_place(names[age - 1], names[age]);
  }
  if (failed || !put_in_place(second, names[1])) fs::remove(second, failed);
}

}  // namespace

std::vector<std::string> generations(const std::string& path, std::uint64_t keep) {
  const std::string first = follow_links(path);
  std::vector<std::string> names = {first};
  for (std::uint64_t age = 1; age < keep; ++age) names.push_back(fmt::format("{}.{}", first, age));
  return names;
}

std::vector<std::string> checkpoint_files(const std::string& path, std::uint64_t keep,
                                          int processes) {
  std::vector<std::string> names = generations(path, keep);
  names[0] = path;
  for (int rank = 1; rank < processes; ++rank) {
    for (std::uint64_t slot = 0; slot <= keep; ++slot) {
      names.push_back(rank_file(path, rank, slot));
    }
  }
  return names;
}

std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

std::uint64_t hash_of_fields(const SavedFields& fields) {
  std::uint64_t hash = 0;
  for (const auto& [name, bytes] : fields) {
    hash = XXH3_64bits_withSeed(name.data(), name.size(), hash);
    hash = XXH3_64bits_withSeed(bytes.span().data(), bytes.span().size(), hash);
  }
  return hash;
}

void write_checkpoint(const std::string& path, nlohmann::json header, const SavedRun& saved,
                      std::uint64_t keep) {
  std::uint64_t end = 0;  // of the fields, behind the header
  header["fields"] = fields_of(saved, end);
  header["start"] = starts_of(saved);
  header["view"] = saved.view;
  header["samples"] = saved.samples;
  const std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const Head head{.header_bytes = text.size()};
  const Foot foot{.file_bytes = aligned(sizeof head + text.size()) + end + sizeof(Foot),
                  .hash = hash_with(bytes_of(head), text)};
  OutputFile file(path, {.what = "the checkpoint", .durable = true});
  const std::string zeros(kAlignment, '\0');
  std::uint64_t written = 0;
  const auto write = [&](std::string_view bytes) {
    file.write(bytes);
    written += bytes.size();
  };
  const auto pad = [&] { write(std::string_view(zeros).substr(0, aligned(written) - written)); };
  write(bytes_of(head));
  write(text);
  pad();
  for_each_owner(saved, [&](const std::string&, const SavedFields& all) {
    for (const auto& [name, bytes] : all) {
      write(text_of(bytes.span()));
      pad();
    }
  });
  write(bytes_of(foot));
  file.commit([&] { keep_checkpoints(path, keep); });
}

std::string rank_file(const std::string& path, int rank, std::uint64_t slot) {
  return fmt::format("{}.rank-{}.{}", follow_links(path), rank, slot);
}

namespace {

// A file that is read front to back, whose every byte must be accounted for.
class CheckpointFile : NonCopyable {
 public:
  explicit CheckpointFile(const std::string& path) : path_(path), file_(path, {"checkpoint"}) {
    if (!file_.has_size())
      throw data_error("{}: found an empty file or a stream, expected a checkpoint", path_);
  }

  std::uint64_t size() const { return file_.size(); }
  std::uint64_t position() const { return position_; }
  void read(std::span<std::byte> to) {
    if (to.size() > size() - position_) damaged("it is cut off");
    read_at(position_, to);
    position_ += to.size();
  }
  // The end of the file, wherever the position is.
  Foot foot() const {
    Foot foot;
    if (size() < sizeof foot) damaged("it is cut off");
    read_at(size() - sizeof foot, std::as_writable_bytes(std::span(&foot, 1)));
    return foot;
  }
  void skip_zeros() {
    std::byte zeros[kAlignment];
    const std::span<std::byte> gap(zeros, aligned(position_) - position_);
    read(gap);
    for (const std::byte each : gap) {
      if (each != std::byte{0}) damaged("a gap between two fields is not zero");
    }
  }
  [[noreturn]] void damaged(const std::string& what) const {
    throw with_hint(data_error("{}: the checkpoint is damaged: {}", path_, what),
                    fmt::format("the one before is {}, if it was kept", generations(path_, 2)[1]));
  }

 private:
  void read_at(std::uint64_t offset, std::span<std::byte> to) const {
    file_.read(offset, {reinterpret_cast<char*>(to.data()), to.size()});
  }

  const std::string path_;
  const InputFile file_;
  std::uint64_t position_ = 0;
};

Head read_head(CheckpointFile& file, const std::string& path) {
  Head head;
  const Head expected;
  file.read(std::as_writable_bytes(std::span(&head, 1)));
  if (head.magic != expected.magic) {
    throw data_error("{}: found another kind of file, expected a checkpoint of hetsgd", path);
  }
  if (head.byte_order != expected.byte_order) {
    throw data_error("{}: the checkpoint has the byte order of another machine", path);
  }
  if (head.version != expected.version) {
    throw with_hint(data_error("{}: found version {} of checkpoints, expected {}", path,
                               head.version, expected.version),
                    "resume with the hetsgd that wrote it");
  }
  return head;
}

// The text of the header, which is as its hash says.
std::string read_header(CheckpointFile& file, const std::string& path, std::uint64_t& hash) {
  const Head head = read_head(file, path);
  if (head.header_bytes > file.size()) file.damaged("it is cut off");
  std::string text(head.header_bytes, ' ');
  file.read(std::as_writable_bytes(std::span(text)));
  file.skip_zeros();
  hash = hash_with(bytes_of(head), text);
  const Foot foot = file.foot();
  if (foot.file_bytes != file.size()) file.damaged("it has another length");
  if (foot.hash != hash) file.damaged("its header has another hash");
  return text;
}

SavedFields& owner_of(SavedRun& saved, const std::string& name) {
  if (name == "common") return saved.common;
  if (name == "shared") return saved.shared;
  if (name == "run") return saved.run;
  if (name == "cluster") return saved.cluster;
  return saved.workers[std::stoi(name.substr(name.find(' ')))];
}

void read_fields(CheckpointFile& file, const nlohmann::json& header, SavedRun& saved) {
  const std::uint64_t first = file.position();
  for (const nlohmann::json& field : header.at("fields")) {
    const auto size = field.at("bytes").get<std::uint64_t>();
    const auto name = field.at("name").get<std::string>();
    if (size > file.size() || field.at("begin").get<std::uint64_t>() != file.position() - first) {
      file.damaged(fmt::format("field {} lies elsewhere", name));
    }
    FieldBytes bytes(size);
    file.read(bytes.span());
    if (hash_text(hash_of(bytes.span())) != field.at("xxh3").get<std::string>()) {
      file.damaged(fmt::format("field {} has another hash", name));
    }
    owner_of(saved, field.at("owner").get<std::string>()).emplace(name, std::move(bytes));
    file.skip_zeros();
  }
}

}  // namespace

std::uint64_t free_slot(const std::string& path, std::uint64_t keep) {
  std::set<std::uint64_t> named;
  for (const std::string& name : generations(path, keep)) {
    try {
      CheckpointFile file(name);
      std::uint64_t hash = 0;
      named.insert(nlohmann::json::parse(read_header(file, name, hash)).value("slot", keep + 1));
    } catch (const Error&) {  // none, or one from which nothing can go on
    }
  }
  std::uint64_t slot = 0;
  while (named.contains(slot)) ++slot;
  return slot;
}

std::uint64_t checkpoint_hash(const std::string& path) { return CheckpointFile(path).foot().hash; }

Checkpoint read_checkpoint(const std::string& path) {
  CheckpointFile file(path);
  Checkpoint checkpoint;
  const std::string text = read_header(file, path, checkpoint.hash);
  try {
    checkpoint.header = nlohmann::json::parse(text);
    read_fields(file, checkpoint.header, checkpoint.saved);
    for (const nlohmann::json& start : checkpoint.header.at("start")) {
      const auto bytes = start.get<std::vector<std::uint8_t>>();
      ByteReader in(std::as_bytes(std::span(bytes)), path);
      const auto clock = in.get<Seconds>();
      checkpoint.saved.start.push_back({clock, in.get<TimeBreakdown>()});
      in.end();
    }
    checkpoint.saved.view = checkpoint.header.at("view").get<std::vector<int>>();
    checkpoint.saved.with_state = checkpoint.saved.view;  // at a cut nobody is lost
    checkpoint.saved.samples = checkpoint.header.at("samples").get<std::uint64_t>();
  } catch (const nlohmann::json::exception&) {
    file.damaged("its header is not that of a checkpoint");
  }
  if (file.position() + sizeof(Foot) != file.size())
    file.damaged("it has more fields than its header");
  return checkpoint;
}

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
