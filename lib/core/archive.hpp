// The state of a run by named fields: the one description by which it is saved, compared and
// loaded.
//
//   struct State {
//     Buffer w;
//     std::uint64_t round = 0;
//     void fields(Archive& fields) {
//       fields.common("w", w);       equal on all workers after a round: saved once
//       fields("round", round);      the owner's own
//     }
//   };
//
// A field is a type with a form in bytes (core/byte_stream.hpp), a JSON value, a type with
// fields(), whose names then follow "NAME/", or a type with a FieldForm of its own (device memory:
// linalg/buffer_field.hpp). An object is loaded into the state in which its maker has left it, so
// fields() makes what it lacks while fields.is_loading().
//
//   State --saving--> SavedFields of each owner --file--> SavedFields --loading--> State
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/byte_stream.hpp"
#include "core/non_copyable.hpp"

namespace hetsgd {

// The bytes of one field, in host memory that is not cleared first.
class FieldBytes {
 public:
  FieldBytes() = default;
  explicit FieldBytes(std::size_t size)
      : data_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}

  std::span<std::byte> span() { return {data_.get(), size_}; }
  std::span<const std::byte> span() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

// The fields of one owner, by name.
using SavedFields = std::map<std::string, FieldBytes>;

class Archive;

// How a T is saved and loaded as one field: `static void visit(Archive&, std::string_view, T&)`.
// Specialise it for types that have neither a form in bytes nor fields().
template <class T>
struct FieldForm;

class Archive : NonCopyable {
 public:
  // Saves the fields of one owner to `own`, and common ones to `common`. A common field that is
  // there already, from another owner, must be equal (check failure). Both may be one object.
  static Archive saving(SavedFields& own, SavedFields& common) { return {&own, &common, {}}; }
  // Loads from them. `place` opens messages: "run.checkpoint: worker 3". Errors: data, a field is
  // missing or has another size.
  static Archive loading(SavedFields& own, SavedFields& common, std::string place) {
    return {&own, &common, std::move(place)};
  }

  bool is_loading() const { return !place_.empty(); }

  template <class T>
  void operator()(std::string_view name, T& field) {
    if constexpr (requires { field.fields(*this); }) {
      const Inside inside(*this, name);
      field.fields(*this);
    } else {
      FieldForm<T>::visit(*this, name, field);
    }
  }
  // The same for a field that is equal on all workers when a segment of the run ends.
  template <class T>
  void common(std::string_view name, T& field) {
    const bool outer = std::exchange(is_common_, true);
    (*this)(name, field);
    is_common_ = outer;
  }

  // --- for FieldForm
  // A field of `size` bytes: saving calls read(to), loading calls write(from).
  void bytes(std::string_view name, std::size_t size,
             const std::function<void(std::span<std::byte>)>& read,
             const std::function<void(std::span<const std::byte>)>& write);
  // Loading: the bytes of a field.
  std::span<const std::byte> loaded(std::string_view name) const;
  std::string where(std::string_view name) const;  // "run.checkpoint: worker 3: field w"

 private:
  Archive(SavedFields* own, SavedFields* common, std::string place)
      : own_(own), common_(common), place_(std::move(place)) {}
  void put(std::string name, FieldBytes bytes);

  // Names that are given meanwhile follow "NAME/".
  class Inside : NonCopyable {
   public:
    Inside(Archive& archive, std::string_view name)
        : archive_(archive), outer_(archive.prefix_.size()) {
      archive.prefix_.append(name).append("/");
    }
    ~Inside() { archive_.prefix_.resize(outer_); }

   private:
    Archive& archive_;
    const std::size_t outer_;
  };

  SavedFields* own_;
  SavedFields* common_;
  std::string place_;  // empty: saving
  std::string prefix_;
  bool is_common_ = false;
};

template <HasByteForm T>
struct FieldForm<T> {
  static void visit(Archive& archive, std::string_view name, T& field) {
    if (archive.is_loading()) {
      field = from_bytes<T>(archive.loaded(name), archive.where(name));
      return;
    }
    const std::vector<std::byte> all = to_bytes(field);
    archive.bytes(
        name, all.size(),
        [&](std::span<std::byte> to) { std::memcpy(to.data(), all.data(), all.size()); }, nullptr);
  }
};

// Long vectors of numbers are copied once, without a count.
template <class T>
requires std::is_arithmetic_v<T> &&(!std::is_same_v<T, bool>)struct FieldForm<std::vector<T>> {
  static void visit(Archive& archive, std::string_view name, std::vector<T>& field) {
    if (archive.is_loading()) field.resize(archive.loaded(name).size() / sizeof(T));
    archive.bytes(
        name, field.size() * sizeof(T),
        [&](std::span<std::byte> to) {
          if (!to.empty()) std::memcpy(to.data(), field.data(), to.size());
        },
        [&](std::span<const std::byte> from) {
          if (!from.empty()) std::memcpy(field.data(), from.data(), from.size());
        });
  }
};

template <>
struct FieldForm<nlohmann::json> {
  static void visit(Archive& archive, std::string_view name, nlohmann::json& field);
};

}  // namespace hetsgd
