// Values as bytes and back: messages between processes, and the headers of binary files.
//
// Form: values follow each other without gaps, numbers in the machine's byte order (little endian).
//   numbers, enumerations, plain structs   their bytes; a plain struct holds no pointer
//   durations                              the number of their units
//   bool                                   one byte, 0 or 1
//   std::string, std::vector, std::span    the number of elements (64 bits), then the elements
//   std::optional                          one byte, 0 or 1; then the value, if there is one
//   structs that list their parts in `static constexpr auto members()`, a tuple of pointers to
//   members: the parts in this order
//
// Reading believes nothing. A count is compared with the bytes that are left before memory is
// allocated for it. Bytes that are cut off or left over are an Error(data) which names what was
// read. The processes of one run are the same program, so their messages need no version. A file
// outlives its program, so it is sealed: magic word, version, length and checksum come first.
#pragma once

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace hetsgd {

static_assert(std::endian::native == std::endian::little, "byte streams are little endian");

// How a T lies in bytes. The specialisations below cover every type named above.
template <class T>
struct ByteForm;

// Collects the byte forms of values, one after the other.
class ByteWriter {
 public:
  template <class T>
  ByteWriter& put(const T& value) {
    ByteForm<T>::write(*this, value);
    return *this;
  }
  // Appends the bytes as they are, without a count.
  ByteWriter& append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Takes values off the front. Every error is an Error(data), "WHAT: cut off: ...".
class ByteReader {
 public:
  // `what` names the bytes in messages, for example "the report of rank 3". Bytes and text must
  // outlive the reader.
  ByteReader(std::span<const std::byte> bytes, std::string_view what)
      : bytes_(bytes), size_(bytes.size()), what_(what) {}

  template <class T>
  auto get() {
    return ByteForm<T>::read(*this);
  }
  // The next `count` bytes.
  std::span<const std::byte> take(std::size_t count);
  // A count of elements that take at least `size` bytes each.
  std::size_t take_count(std::size_t size);
  // One byte that must be 0 or 1.
  bool take_bool();
  // All that is left.
  std::span<const std::byte> rest() { return std::exchange(bytes_, {}); }
  // Error(data) if anything is left.
  void end() const;

 private:
  std::span<const std::byte> bytes_;
  std::size_t size_;
  std::string_view what_;
};

namespace detail {

template <class T>
concept ListsMembers = requires {
  T::members();
};

template <class T>
concept PlainBytes = std::is_trivially_copyable_v<T> && !ListsMembers<T> &&
                     (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_aggregate_v<T>);

// A count and then the elements; reading gives a Stored.
template <class T, class Stored_>
struct ByteSequence {
  using Stored = Stored_;
  static constexpr bool kAtOnce = PlainBytes<T> && !std::is_same_v<T, bool>;
  static void write(ByteWriter& out, const auto& values) {
    out.put(std::uint64_t{values.size()});
    if constexpr (kAtOnce) {
      out.append(std::as_bytes(std::span<const T>(values)));
    } else {
      for (const T& value : values) out.put(value);
    }
  }
  static Stored read(ByteReader& in) {
    Stored values;
    if constexpr (kAtOnce) {
      values.resize(in.take_count(sizeof(T)));
      const std::span<const std::byte> bytes = in.take(values.size() * sizeof(T));
      if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    } else {
      const std::size_t count = in.take_count(1);
      for (std::size_t i = 0; i < count; ++i) values.push_back(in.get<T>());
    }
    return values;
  }
};

}  // namespace detail

// Whether a T has a form in bytes.
template <class T>
concept HasByteForm = requires {
  typename ByteForm<T>::Stored;
};

template <detail::PlainBytes T>
struct ByteForm<T> {
  using Stored = T;
  static void write(ByteWriter& out, const T& value) {
    out.append(std::as_bytes(std::span(&value, 1)));
  }
  static T read(ByteReader& in) {
    T value{};
    std::memcpy(&value, in.take(sizeof value).data(), sizeof value);
    return value;
  }
};

template <>
struct ByteForm<bool> {
  using Stored = bool;
  static void write(ByteWriter& out, bool value) { out.put(static_cast<std::uint8_t>(value)); }
  static bool read(ByteReader& in) { return in.take_bool(); }
};

template <class Number, class Unit>
struct ByteForm<std::chrono::duration<Number, Unit>> {
  using Stored = std::chrono::duration<Number, Unit>;
  static void write(ByteWriter& out, Stored value) { out.put(value.count()); }
  static Stored read(ByteReader& in) { return Stored(in.get<Number>()); }
};

template <detail::ListsMembers T>
struct ByteForm<T> {
  using Stored = T;
  static void write(ByteWriter& out, const T& value) {
    std::apply([&](auto... part) { (out.put(value.*part), ...); }, T::members());
  }
  static T read(ByteReader& in) {
    T value{};
    std::apply([&](auto... part) { ((value.*part = in.get<Part<decltype(part)>>()), ...); },
               T::members());
    return value;
  }

 private:
  template <class Pointer>
  using Part = std::remove_cvref_t<decltype(std::declval<T&>().*std::declval<Pointer>())>;
};

template <HasByteForm T>
struct ByteForm<std::optional<T>> {
  using Stored = std::optional<T>;
  static void write(ByteWriter& out, const std::optional<T>& value) {
    out.put(value.has_value());
    if (value) out.put(*value);
  }
  static Stored read(ByteReader& in) { return in.take_bool() ? Stored(in.get<T>()) : std::nullopt; }
};

template <HasByteForm T>
struct ByteForm<std::vector<T>> : detail::ByteSequence<T, std::vector<T>> {};
template <HasByteForm T>
struct ByteForm<std::span<const T>> : detail::ByteSequence<T, std::vector<T>> {};
template <HasByteForm T>
struct ByteForm<std::span<T>> : detail::ByteSequence<T, std::vector<T>> {};
template <>
struct ByteForm<std::string> : detail::ByteSequence<char, std::string> {};
template <>
struct ByteForm<std::string_view> : detail::ByteSequence<char, std::string> {};

// The bytes of the values, one after the other.
template <class... T>
std::vector<std::byte> to_bytes(const T&... values) {
  ByteWriter out;
  (out.put(values), ...);
  return std::move(out).take();
}

// Reads `bytes`, which must hold exactly one value. Throws Error(data), "WHAT: ...", if it does
// not.
template <class T>
typename ByteForm<T>::Stored from_bytes(std::span<const std::byte> bytes, std::string_view what) {
  ByteReader in(bytes, what);
  auto value = in.get<T>();
  in.end();
  return value;
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// --- sealed files -------------------------------------------------------------------------------

// Identifies a kind of file: eight letters and the version of its contents.
struct SealKind {
  std::string_view magic;
  std::uint32_t version = 0;
  std::string_view noun;      // "converted data file"
  std::string_view old = {};  // hint if the version differs
};

inline constexpr std::size_t kSealBytes = 32;  // magic, version, reserved, length, XXH3-64

// The content with its seal in front.
std::vector<std::byte> sealed(const SealKind& kind, std::span<const std::byte> content);
// The length of the content, read from the first kSealBytes. Throws Error(data), "WHERE: ...", if
// the file is of another kind or version.
std::uint64_t sealed_length(const SealKind& kind, std::span<const std::byte> seal,
                            std::string_view where);
// The content of `bytes`, which begin with the seal and end with the content. Throws what
// sealed_length() throws, and Error(data) for another length or a wrong checksum.
std::span<const std::byte> unsealed(const SealKind& kind, std::span<const std::byte> bytes,
                                    std::string_view where);

}  // namespace hetsgd
