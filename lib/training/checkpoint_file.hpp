// Checkpoint files: the state of a run between two segments (segments.hpp), from which another
// process goes on.
//
//   0    "HSGDCKPT", version, byte order, length of the header
//   24   header (JSON): {
//          config, data: {train, test}   content hashes
//          cluster, segment, samples, time_s, revision, processor
//          fields: [{owner, name, bytes, begin, xxh3}]
//          ranks: [{rank, file, xxh3}]   mpi: the files of the other ranks
//        }
//   ...  the fields, each at a multiple of 64 bytes, with zeros in between
//   end  length of the file, hash of everything before the fields
//
// A file is written beside its name, brought to the disk and then renamed, so that a file of this
// name is always a whole one. The ones before it are FILE.1, FILE.2 ... Under mpi rank R writes
// FILE.rank-R.segment-N, and rank 0 writes FILE last, which names them: so FILE is complete or the
// one before.
//
// Reading believes nothing: every byte is covered by a hash, and every error is an Error(data).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "algorithm/run_state.hpp"

namespace hetsgd {

// Writes the state with `header`, to which the places of the fields are added. An existing file
// becomes PATH.1, that PATH.2, up to `keep` files in all. Errors: runtime, naming the path and the
// reason; existing files stay as they are.
void write_checkpoint(const std::string& path, nlohmann::json header, const SavedRun& saved,
                      std::uint64_t keep);
// The hash at the end of a checkpoint, which covers all hashes in its header. Errors: as
// read_checkpoint().
std::uint64_t checkpoint_hash(const std::string& path);
// As text, because numbers of JSON may be read as doubles.
std::string hash_text(std::uint64_t hash);
// A hash of all fields.
std::uint64_t hash_of_fields(const SavedFields& fields);
// The file of rank R for segment N of the checkpoint at `path`.
std::string rank_file(const std::string& path, int rank, std::uint64_t segment);
// Removes such files of this rank, but for the last `keep` segments up to `segment`.
void remove_rank_files(const std::string& path, int rank, std::uint64_t segment,
                       std::uint64_t keep);

struct Checkpoint {
  nlohmann::json header;
  SavedRun saved;
  std::uint64_t hash = 0;
};
// Errors: data, naming the path and what is wrong: missing, cut off, damaged, of another version or
// byte order.
Checkpoint read_checkpoint(const std::string& path);

}  // namespace hetsgd
