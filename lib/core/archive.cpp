#include "core/archive.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

namespace hetsgd {

std::string Archive::where(std::string_view name) const {
  return fmt::format("{}: field {}{}", place_, prefix_, name);
}

std::span<const std::byte> Archive::loaded(std::string_view name) const {
  const SavedFields& from = is_common_ ? *common_ : *own_;
  const auto found = from.find(prefix_ + std::string(name));
  if (found == from.end()) {
    throw with_hint(data_error("{} is missing", where(name)),
                    "the file was written by another version of hetsgd or of the algorithm");
  }
  return std::as_const(found->second).span();
}

void Archive::bytes(std::string_view name, std::size_t size,
                    const std::function<void(std::span<std::byte>)>& read,
                    const std::function<void(std::span<const std::byte>)>& write) {
  if (!is_loading()) {
    FieldBytes saved(size);
    read(saved.span());
    return put(prefix_ + std::string(name), std::move(saved));
  }
  const std::span<const std::byte> from = loaded(name);
  if (from.size() != size) {
    throw with_hint(data_error("{}: found {} bytes, expected {}", where(name), from.size(), size),
                    "the file was written by another version of hetsgd or of the algorithm");
  }
  write(from);
}

void Archive::put(std::string name, FieldBytes bytes) {
  SavedFields& to = is_common_ ? *common_ : *own_;
  const auto [at, is_new] = to.try_emplace(std::move(name), std::move(bytes));
  if (is_new) return;
  if (is_common_ && !compares_) return;
  if (is_common_ && std::ranges::equal(at->second.span(), bytes.span())) return;
  throw CheckFailure(
      is_common_
          ? fmt::format("the common field {} differs between workers at the end of a segment",
                        at->first)
          : fmt::format("two fields of one state have the name {}", at->first));
}

void FieldForm<nlohmann::json>::visit(Archive& archive, std::string_view name,
                                      nlohmann::json& field) {
  if (archive.is_loading()) {
    const auto from = archive.loaded(name);
    const auto* const first = reinterpret_cast<const std::uint8_t*>(from.data());
    field = nlohmann::json::from_cbor(first, first + from.size());
    return;
  }
  const std::vector<std::uint8_t> all = nlohmann::json::to_cbor(field);
  archive.bytes(
      name, all.size(),
      [&](std::span<std::byte> to) { std::memcpy(to.data(), all.data(), all.size()); }, nullptr);
}

void ByteForm<SavedFields>::write(ByteWriter& out, const SavedFields& fields) {
  out.put(std::uint64_t{fields.size()});
  for (const auto& [name, bytes] : fields) out.put(name).put(bytes.span());
}

SavedFields ByteForm<SavedFields>::read(ByteReader& in) {
  SavedFields fields;
  for (std::size_t left = in.take_count(1); left > 0; --left) {
    std::string name = in.get<std::string>();
    const std::span<const std::byte> bytes = in.take(in.take_count(1));
    fields.emplace(std::move(name), FieldBytes(bytes));
  }
  return fields;
}

}  // namespace hetsgd
