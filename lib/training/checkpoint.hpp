// Checkpoint files: the state of a run between two segments (segments.hpp). Another process can
// resume the run from it.
//
//   0    "HSGDCKPT", version, byte order, length of the header
//   24   header (JSON): {
//          config, data: {train, test}   content hashes
//          cluster, segment, samples, revision
//          fields: [{owner, name, bytes, begin, xxh3}]
//          file, slot, ranks: [xxh3]     mpi: the files of the other ranks
//        }
//   ...  the fields, each at a multiple of 64 bytes, with zeros in between
//   end  length of the file, hash of everything before the fields
//
// A file is written beside its name, brought to the disk and then renamed, so that a file of this
// name is always a whole one. The ones before it are FILE.1, FILE.2 ... They move on only when the
// new file is on the disk. Under mpi rank R writes FILE.rank-R.S, and rank 0 writes FILE last,
// which names the slot S: so FILE is complete or the one before. S is the lowest number that none
// of the kept files names, so there is one slot more than files are kept.
//
// Where FILE is a link, all of them lie beside the file that it points to.
//
// Reading believes nothing: every byte is covered by a hash, and every error is an Error(data).
//
// Checkpoints are those of one run: what is written between two segments, and from what it is
// resumed. Every process of the run has one, and all make the same calls. A process without a
// checkpoint to resume from and without one to write does nothing.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "algorithm/run_state.hpp"
#include "cluster/process_group.hpp"
#include "training/record.hpp"
#include "training/train_options.hpp"

namespace hetsgd {

inline constexpr std::array<char, 8> kCheckpointMagic = {'H', 'S', 'G', 'D', 'C', 'K', 'P', 'T'};

// All names of the files of the last `keep` checkpoints at `path`, for this many processes: `path`,
// PATH.1 ..., those of the other ranks.
std::vector<std::string> checkpoint_files(const std::string& path, std::uint64_t keep,
                                          int processes);
// The first of these, and those that are made from it.
std::vector<std::string> generations(const std::string& path, std::uint64_t keep);

// Writes the state with `header`, and adds the places of the fields to the header. An existing file
// becomes PATH.1, that PATH.2, up to `keep` files in all. Throws Error(runtime) naming the path and
// the reason; existing files stay as they are.
void write_checkpoint(const std::string& path, nlohmann::json header, const SavedRun& saved,
                      std::uint64_t keep);
// The hash at the end of a checkpoint, which covers all hashes in its header. Throws what
// read_checkpoint() throws.
std::uint64_t checkpoint_hash(const std::string& path);
// As text, because numbers of JSON may be read as doubles.
std::string hash_text(std::uint64_t hash);
// A hash of all fields.
std::uint64_t hash_of_fields(const SavedFields& fields);
// The file of a rank in a slot of the checkpoint at `path`.
std::string rank_file(const std::string& path, int rank, std::uint64_t slot);
// A slot that none of the kept checkpoints at `path` names.
std::uint64_t free_slot(const std::string& path, std::uint64_t keep);

struct Checkpoint {
  nlohmann::json header;
  SavedRun saved;
  std::uint64_t hash = 0;
};
// Throws Error(data) naming the path and what is wrong: missing, cut off, damaged, of another
// version or byte order.
Checkpoint read_checkpoint(const std::string& path);

class Checkpoints {
 public:
  // All arguments outlive it. set: declares the options.
  Checkpoints(const TrainOptions& options, const OptionSet& set, const Record& record)
      : options_(options), set_(set), record_(record) {}

  bool resumes() const { return !options_.resume_from.empty(); }
  // Reads the checkpoint to resume from. The record's config must be complete. Throws what
  // read_checkpoint() throws, and Error(usage) naming an option that differs between that run and
  // this one.
  void read();
  // Returns warnings. Throws Error(data) if the run was of other data. Throws Error(usage) if its
  // learning rate had another schedule, for example because another budget decides when it ends.
  std::vector<std::string> check_data() const;
  // The state to go on from, once.
  SavedRun take() { return std::move(read_->saved); }

  // Collective. Writes the state between two segments, if the run has a file for it. Throws the
  // same Error(runtime) on all processes; an existing checkpoint stays.
  void write(const SavedRun& saved);

 private:
  void check_schedule() const;
  nlohmann::json header() const;

  const TrainOptions& options_;
  const OptionSet& set_;
  const Record& record_;
  std::optional<Checkpoint> read_;
};

}  // namespace hetsgd
