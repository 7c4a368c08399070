// The state of a run by named fields: one description for saving, comparing and loading it.
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
// fields(), or a type with a FieldForm of its own (device memory: linalg/buffer_field.hpp). The
// names of a type with fields() follow "NAME/". Loading starts from the object as its maker has
// left it, so fields() makes what it lacks while fields.is_loading().
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

  explicit FieldBytes(std::span<const std::byte> bytes) : FieldBytes(bytes.size()) {
    if (!bytes.empty()) std::memcpy(data_.get(), bytes.data(), bytes.size());
  }

  std::span<std::byte> span() { return {data_.get(), size_}; }
  std::span<const std::byte> span() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

// The fields of one owner, by name.
using SavedFields = std::map<std::string, FieldBytes>;

// Fields travel between workers: their number, then each name and its bytes.
template <>
struct ByteForm<SavedFields> {
  using Stored = SavedFields;
  static void write(ByteWriter& out, const SavedFields& fields);
  static SavedFields read(ByteReader& in);
};

class Archive;

// How a T is saved and loaded as one field: `static void visit(Archive&, std::string_view, T&)`.
// Specialise it for types that have neither a form in bytes nor fields().
template <class T>
struct FieldForm;

// How a state is loaded if the run goes on with other workers than those that it was saved with.
struct OtherWorkers {
  // By rank now: the rank when the state was saved; -1: the worker has joined since.
  std::vector<int> rank_before;
  // The owner has joined: it has the common fields, and keeps its own as its maker has left them.
  bool joins = false;
  const SavedFields* first = nullptr;  // of the worker that then had the lowest rank
};

class Archive : NonCopyable {
 public:
  // Saves the fields of one owner to `own`, and common ones to `common`. A common field that is
  // there already, from another owner, must be equal (check failure). Both may be one object.
  static Archive saving(SavedFields& own, SavedFields& common) {
    return {&own, &common, "", true, nullptr};
  }
  // The same where workers were lost in the middle of a round: the first owner's common fields are
  // those of all.
  static Archive saving_first(SavedFields& own, SavedFields& common) {
    return {&own, &common, "", false, nullptr};
  }
  // Loads from them. `place` opens messages: "run.checkpoint: worker 3". `other` outlives it; null:
  // the workers are the same. Throws Error(data) if a field is missing or has another size.
  static Archive loading(const SavedFields& own, const SavedFields& common, std::string place,
                         const OtherWorkers* other = nullptr) {
    return {const_cast<SavedFields*>(&own), const_cast<SavedFields*>(&common), std::move(place),
            true, other};
  }

  bool is_loading() const { return !place_.empty(); }
  // Whether the owner joins a run that others have begun, so that it has no fields of its own.
  bool joins() const { return other_ != nullptr && other_->joins; }

  template <class T>
  void operator()(std::string_view name, T& field) {
    if (joins() && !is_common_ && !nests<T>()) return;
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

  // An own field that a worker which joins takes over from the first of the others.
  template <class T>
  void or_first(std::string_view name, T& field) {
    if (!joins() || is_common_) return (*this)(name, field);
    const OtherWorkers* const other = std::exchange(other_, nullptr);
    SavedFields* const own = std::exchange(own_, const_cast<SavedFields*>(other->first));
    (*this)(name, field);
    own_ = own;
    other_ = other;
  }
  // Puts the elements of a loaded field, one for each worker by rank, in the order of the ranks
  // now. A worker that has joined has `fresh`.
  template <class T>
  void to_ranks_now(std::vector<T>& field, const T& fresh) const {
    if (!is_loading() || other_ == nullptr) return;
    std::vector<T> now;
    for (const int before : other_->rank_before) {
      const auto index = static_cast<std::size_t>(before);
      now.push_back(before >= 0 && index < field.size() ? field[index] : fresh);
    }
    field = std::move(now);
  }

  // Whether the state is saved in the middle of a round, because workers were lost, or was so.
  bool is_mid_round() const {
    if (!is_loading()) return !compares_;
    return own_->contains(prefix_ + kMidRound);
  }
  // A field that only such a state has.
  template <class T>
  void mid_round(std::string_view name, T& field) {
    if (!is_mid_round()) return;
    bool marked = true;
    if (is_loading() || !own_->contains(prefix_ + kMidRound)) (*this)(kMidRound, marked);
    (*this)(name, field);
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
  static constexpr const char* kMidRound = "mid_round";
  Archive(SavedFields* own, SavedFields* common, std::string place, bool compares,
          const OtherWorkers* other)
      : own_(own), common_(common), place_(std::move(place)), compares_(compares), other_(other) {}
  template <class T>
  static constexpr bool nests() {
    return requires(T & field, Archive & archive) { field.fields(archive); };
  }
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
  const bool compares_;
  const OtherWorkers* other_;
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
