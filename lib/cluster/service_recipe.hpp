// How a service is made in another process than that of the worker who opens it: which handler, and
// its constructor's arguments as bytes. Every process runs the same program, so a handler is named
// by its type.
//
// Arguments that travel: numbers, enumerations, bool; std::string; vectors and spans of plain
// structs of those (a span arrives as a vector); plain structs; structs that list their parts in
// `static constexpr auto members()`, a tuple of pointers to members. A struct must hold no pointer.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cluster/service.hpp"
#include "core/error.hpp"

namespace hetsgd {

struct ServiceRecipe {
  std::string maker{};
  std::vector<std::byte> arguments{};
};

// Errors: check failure, no such maker or too few bytes.
std::unique_ptr<ServiceHandler> make_service_handler(const ServiceRecipe& recipe);

namespace detail {

using BytesIn = std::span<const std::byte>;
using BytesOut = std::vector<std::byte>;
using ServiceMaker = std::unique_ptr<ServiceHandler> (*)(BytesIn);
bool register_service_maker(const char* name, ServiceMaker maker);

void put(BytesOut& out, const void* data, std::size_t bytes);
inline void get(BytesIn& in, void* data, std::size_t bytes) {
  HETSGD_CHECK_GE(in.size(), bytes);
  if (bytes > 0) std::memcpy(data, in.data(), bytes);
  in = in.subspan(bytes);
}

template <class T>
concept HasMembers = requires {
  T::members();
};
template <class T>
inline constexpr bool kPlain =
    std::is_trivially_copyable_v<T> && !HasMembers<T> &&
    (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_aggregate_v<T>);

// portable: whether it travels; Stored: what it is when it has arrived.
template <class T>
struct Argument {
  static constexpr bool portable = kPlain<T> || HasMembers<T>;
  using Stored = T;
  static void write(BytesOut& out, const T& value);
  static T read(BytesIn& in);
};

template <class T>
struct ArrayArgument {
  static constexpr bool portable = kPlain<T>;
  using Stored = std::vector<T>;
  static void write(BytesOut& out, std::span<const T> values) {
    const std::size_t count = values.size();
    put(out, &count, sizeof count);
    put(out, values.data(), values.size_bytes());
  }
  static Stored read(BytesIn& in) {
    std::size_t count = 0;
    get(in, &count, sizeof count);
    HETSGD_CHECK_GE(in.size() / sizeof(T), count);
    Stored values(count);
    get(in, values.data(), count * sizeof(T));
    return values;
  }
};
template <class T>
struct Argument<std::vector<T>> : ArrayArgument<T> {};
template <class T>
struct Argument<std::span<const T>> : ArrayArgument<T> {};
template <class T>
struct Argument<std::span<T>> : ArrayArgument<T> {};
template <>
struct Argument<std::string> {
  static constexpr bool portable = true;
  using Stored = std::string;
  static void write(BytesOut& out, const std::string& text) {
    ArrayArgument<char>::write(out, std::span<const char>(text));
  }
  static std::string read(BytesIn& in) {
    const auto text = ArrayArgument<char>::read(in);
    return {text.begin(), text.end()};
  }
};

template <class T>
void Argument<T>::write(BytesOut& out, const T& value) {
  if constexpr (HasMembers<T>) {
    std::apply(
        [&](auto... part) {
          (Argument<std::decay_t<decltype(value.*part)>>::write(out, value.*part), ...);
        },
        T::members());
  } else {
    put(out, &value, sizeof value);
  }
}

template <class T>
T Argument<T>::read(BytesIn& in) {
  T value{};
  if constexpr (HasMembers<T>) {
    std::apply(
        [&](auto... part) {
          ((value.*part = Argument<std::decay_t<decltype(value.*part)>>::read(in)), ...);
        },
        T::members());
  } else {
    get(in, &value, sizeof value);
  }
  return value;
}

// The maker of S from Args..., registered before main() where it is used.
template <class S, class... Args>
struct MakerOf {
  static std::unique_ptr<ServiceHandler> make([[maybe_unused]] BytesIn in) {
    // Braces: read in this order.
    std::tuple<typename Argument<Args>::Stored...> stored{Argument<Args>::read(in)...};
    return std::apply([](const auto&... each) { return std::make_unique<S>(each...); }, stored);
  }
  static const char* name() { return typeid(MakerOf).name(); }
  inline static const bool registered = register_service_maker(name(), &make);
};

}  // namespace detail

// Whether such arguments travel.
template <class... Args>
inline constexpr bool kPortable = (detail::Argument<Args>::portable && ...);

// The recipe of S(args...), whose arguments travel.
template <class S, class... Args>
ServiceRecipe recipe_of(const Args&... args) {
  HETSGD_CHECK((detail::MakerOf<S, Args...>::registered));
  ServiceRecipe recipe{.maker = detail::MakerOf<S, Args...>::name()};
  (detail::Argument<Args>::write(recipe.arguments, args), ...);
  return recipe;
}

}  // namespace hetsgd
