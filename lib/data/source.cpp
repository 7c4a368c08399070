#include "data/source.hpp"

#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/text.hpp"
#include "data/huge_pages.hpp"
#include "data/parallel.hpp"

namespace hetsgd {

namespace {

// Bytes of a piece that stays in the processor's cache until it is hashed.
constexpr std::size_t kPiece = std::size_t{1} << 19;
// Bytes of a piece that keeps a thread busy.
constexpr std::size_t kShare = std::size_t{1} << 22;
// Needs below this (bytes) are not compared with the machine's memory.
constexpr double kLittle = 64 << 20;

// The hint where a directory is named: its first files.
std::string files_hint(const std::string& directory) {
  constexpr std::size_t kMostNamed = 4;
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    if (entry.is_regular_file(failed)) names.push_back(quote(entry.path().filename().string()));
  }
  std::ranges::sort(names);
  names.resize(std::min(names.size(), kMostNamed));
  return names.empty() ? "name a file" : "name one of its files, such as " + alternatives(names);
}

InputKind data_file(const std::string& path) {
  return {.noun = "data file",
          .missing = "check the path; generated data has a name such as generate:tiny",
          .directory = files_hint(path)};
}

}  // namespace

void MemorySource::read(std::uint64_t offset, std::span<char> to) const {
  HETSGD_CHECK_LE(offset, bytes_.size());
  HETSGD_CHECK_LE(to.size(), bytes_.size() - offset);
  if (!to.empty()) std::memcpy(to.data(), bytes_.data() + offset, to.size());
}

DataFile::DataFile(const std::string& path, InputKind kind)
    : file_(path, kind.noun.empty() ? data_file(path) : std::move(kind)) {
  if (!file_.has_size()) read_stream();
}

std::uint64_t DataFile::size() const { return file_.has_size() ? file_.size() : stream_.size(); }

void DataFile::read(std::uint64_t offset, std::span<char> to) const {
  if (file_.has_size()) return file_.read(offset, to);
  MemorySource({stream_.data(), stream_.size()}).read(offset, to);
}

void DataFile::read_stream() {
  std::size_t size = 0;
  while (true) {
    if (stream_.size() - size < kPiece) {
      require_memory(3.0 * static_cast<double>(stream_.size()), file_.path(), "the text");
      stream_.resize(stream_.size() * 2 + kPiece);
    }
    const std::size_t got = file_.next(std::span(stream_).subspan(size));
    size += got;
    if (got == 0) break;
  }
  stream_.resize(size);
}

std::uint64_t DataFile::hash() {
  if (hash_) return *hash_;
  RunningHash hash;
  std::vector<char> piece(kPiece);
  for (std::uint64_t at = 0; at < size(); at += piece.size()) {
    const std::span part(piece.data(), std::min<std::uint64_t>(kPiece, size() - at));
    read(at, part);
    hash.add({part.data(), part.size()});
  }
  hash_ = hash.value();
  return *hash_;
}

std::string_view DataFile::whole(std::optional<int> threads) {
  if (!file_.has_size()) return {stream_.data(), stream_.size()};
  if (!whole_) {
    require_memory(static_cast<double>(size()), file_.path(), "the text");
    whole_ = std::make_unique_for_overwrite<char[]>(size());
    advise_huge_pages(whole_.get(), size());
    parallel_tasks(threads, (size() + kShare - 1) / kShare, [&](std::size_t i) {
      const std::uint64_t at = i * kShare;
      read(at, {whole_.get() + at, std::min<std::uint64_t>(kShare, size() - at)});
    });
    file_.check_unchanged();
  }
  const std::string_view bytes(whole_.get(), size());
  // Modification times are coarse, so the bytes that were hashed and those that are used are
  // compared.
  const std::uint64_t found = content_hash(bytes);
  if (hash_.value_or(found) != found) {
    throw with_hint(data_error("{}: the data file changed while it was read", file_.path()),
                    "read it again when nobody writes to it");
  }
  hash_ = found;
  return bytes;
}

void require_memory(double bytes, const std::string& path, std::string_view what, MemoryLimit limit,
                    std::string hint) {
  if (bytes < kLittle) return;
  const MachineMemory memory = machine_memory();
  const double most = limit == MemoryLimit::total ? memory.total_bytes : memory.available_bytes;
  if (bytes <= most) return;
  throw with_hint(data_error("{}: {} needs at least {} of memory, this machine has {}{}", path,
                             what, format_bytes(bytes), format_bytes(most),
                             limit == MemoryLimit::total ? "" : " left"),
                  std::move(hint));
}

std::uint64_t content_hash(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

RunningHash::RunningHash()
    : state_(XXH3_createState(), [](XXH3_state_t* state) { XXH3_freeState(state); }) {
  HETSGD_CHECK(state_ != nullptr);
  XXH3_64bits_reset(state_.get());
}

void RunningHash::add(std::string_view bytes) {
  XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

std::uint64_t RunningHash::value() const { return XXH3_64bits_digest(state_.get()); }

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

}  // namespace hetsgd
