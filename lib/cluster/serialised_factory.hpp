// How a service is made in another process than that of the worker that opens it: which handler,
// and its constructor's arguments as bytes. Every process runs the same program and plugins, so a
// handler is named by its type, and a number where several have one name.
//
//   opening process                             process that runs the services
//   serialise_factory<S>(args...):              make_service_handler():
//     key of FactoryOf<S, Args...>  --bytes-->    finds FactoryOf by its key,
//     and to_bytes(args...)                       reads the arguments, makes S(args...)
//
// Both sides know the key because instantiating FactoryOf registers it before main(). The name of a
// type is that of the compiler, which is why all processes must be the same program.
//
// Serialisable arguments are those with a form in bytes (core/byte_stream.hpp); a span arrives as a
// vector.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cluster/service.hpp"
#include "core/byte_stream.hpp"

namespace hetsgd {

// A service yet to be made. Owns its bytes: the arguments may be freed afterwards.
struct SerialisedFactory {
  std::string key{};  // key of the handler's type
  std::vector<std::byte> arguments{};

  static constexpr auto members() {
    return std::tuple(&SerialisedFactory::key, &SerialisedFactory::arguments);
  }
};

// Throws CheckFailure if there is no such handler, Error(data) if the bytes are not its arguments.
std::unique_ptr<ServiceHandler> make_service_handler(const SerialisedFactory& factory);

namespace detail {

using HandlerFactory = std::unique_ptr<ServiceHandler> (*)(std::span<const std::byte>);
// Returns the factory's key: its name with a number. Called while static objects are initialised
// (or a plugin is loaded), on one thread; the same pair again gives the same key.
std::string register_handler_factory(const char* name, HandlerFactory factory);

// Makes an S from Args...; registered before main() where it is used: serialise_factory() names
// `key`, and is instantiated by every serve<S>() whose arguments are serialisable.
template <class S, class... Args>
struct FactoryOf {
  static std::unique_ptr<ServiceHandler> make(std::span<const std::byte> bytes) {
    ByteReader in(bytes, "the arguments of a service");
    // Braces: read in this order.
    std::tuple<typename ByteForm<Args>::Stored...> stored{in.get<Args>()...};
    in.end();
    return std::apply([](const auto&... each) { return std::make_unique<S>(each...); }, stored);
  }
  inline static const std::string key = register_handler_factory(typeid(FactoryOf).name(), &make);
};

}  // namespace detail

// How a service is made: in this process, or by a copy of its arguments in another one. Called by
// the cluster within open_service(), where the arguments still live.
struct ServiceFactory {
  std::function<std::unique_ptr<ServiceHandler>()> make;
  std::function<SerialisedFactory()> serialise{};  // empty: the arguments do not travel
};

// Whether a service with such arguments can be made in another process.
template <class... Args>
inline constexpr bool kSerialisable = (HasByteForm<Args> && ...);

// Returns the factory of S(args...), whose arguments are serialisable.
template <class S, class... Args>
SerialisedFactory serialise_factory(const Args&... args) {
  return {.key = detail::FactoryOf<S, Args...>::key, .arguments = to_bytes(args...)};
}

}  // namespace hetsgd
