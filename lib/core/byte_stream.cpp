#include "core/byte_stream.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>

#include "core/error.hpp"

namespace hetsgd {

namespace {

struct Seal {
  std::array<char, 8> magic{};
  std::uint32_t version = 0;
  std::uint32_t reserved = 0;
  std::uint64_t length = 0;
  std::uint64_t sum = 0;  // of the content, seeded by all before it
};
static_assert(sizeof(Seal) == kSealBytes);

std::uint64_t sum_of(const Seal& seal, std::span<const std::byte> content) {
  const std::uint64_t head = XXH3_64bits(&seal, offsetof(Seal, sum));
  return XXH3_64bits_withSeed(content.data(), content.size(), head);
}

Seal read_seal(const SealKind& kind, std::span<const std::byte> bytes, std::string_view where) {
  if (bytes.size() < kSealBytes || !text_of(bytes).starts_with(kind.magic)) {
    throw data_error("{}: not a {}: its header is missing or cut off", where, kind.noun);
  }
  const auto seal = from_bytes<Seal>(bytes.first(kSealBytes), where);
  if (seal.version != kind.version) {
    refuse(where, fmt::format("format version {}", seal.version),
           fmt::format("version {}", kind.version), std::string(kind.old), ExitCode::data);
  }
  return seal;
}

}  // namespace

std::span<const std::byte> ByteReader::take(std::size_t count) {
  if (count > bytes_.size()) {
    throw data_error("{}: cut off after {} bytes: found {} more, expected {}", what_,
                     size_ - bytes_.size(), bytes_.size(), count);
  }
  const std::span<const std::byte> taken = bytes_.first(count);
  bytes_ = bytes_.subspan(count);
  return taken;
}

std::size_t ByteReader::take_count(std::size_t size) {
  const auto count = get<std::uint64_t>();
  if (count > bytes_.size() / size) {
    throw data_error("{}: cut off after {} bytes: found {} more, expected {} elements of {} bytes",
                     what_, size_ - bytes_.size(), bytes_.size(), count, size);
  }
  return count;
}

bool ByteReader::take_bool() {
  const auto value = get<std::uint8_t>();
  if (value > 1) {
    throw data_error("{}: found {} at byte {}, expected 0 or 1", what_, value,
                     size_ - bytes_.size() - 1);
  }
  return value == 1;
}

void ByteReader::end() const {
  if (bytes_.empty()) return;
  throw data_error("{}: found {} bytes, expected {}", what_, size_, size_ - bytes_.size());
}

std::vector<std::byte> sealed(const SealKind& kind, std::span<const std::byte> content) {
  Seal seal{.version = kind.version, .length = content.size()};
  HETSGD_CHECK_EQ(kind.magic.size(), seal.magic.size());
  std::ranges::copy(kind.magic, seal.magic.begin());
  seal.sum = sum_of(seal, content);
  ByteWriter out;
  out.put(seal).append(content);
  return std::move(out).take();
}

std::uint64_t sealed_length(const SealKind& kind, std::span<const std::byte> seal,
                            std::string_view where) {
  return read_seal(kind, seal, where).length;
}

std::span<const std::byte> unsealed(const SealKind& kind, std::span<const std::byte> bytes,
                                    std::string_view where) {
  const Seal seal = read_seal(kind, bytes, where);
  const std::span<const std::byte> content = bytes.subspan(kSealBytes);
  if (content.size() != seal.length) {
    throw data_error("{}: cut off or grown: found {} bytes after the header, expected {}", where,
                     content.size(), seal.length);
  }
  if (const std::uint64_t sum = sum_of(seal, content); sum != seal.sum) {
    throw data_error("{}: the header's checksum is wrong: found {:016x}, expected {:016x}", where,
                     sum, seal.sum);
  }
  return content;
}

}  // namespace hetsgd
