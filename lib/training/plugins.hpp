// Plugins: algorithms and models that are built outside of this tree (find_package(hetsgd), see
// algorithm/README.md) and come in a shared library.
//
// A plugin is C++ that shares classes with the program, so both must be compiled from the same
// headers, by the same compiler, with the same flags. hetsgd_add_plugin compiles a stamp into it
// that says so (core/version.hpp, build_stamp). The stamp is read from the bytes of the file:
// nothing of a plugin that does not fit runs.
//
//   found -> read (is it ELF? has it a stamp?) -> stamp compared -> opened (are all symbols there?)
//         -> its registrations have run (is there any? is each name new?) -> loaded, until the end
//
// Up to "stamp compared" a refusal leaves the process as it was. From "opened" on the plugin's own
// code has run, and what it registered cannot be taken back, so the process must end with the
// error. A library is never closed: registered factories, vtables and type names point into it,
// also in static objects that are destroyed at exit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hetsgd {

// As the result names it. The hash is of the bytes that were compared and opened: hetsgd rerun
// wants the same ones, and all ranks of a run must have loaded the same.
struct Plugin {
  std::string name;           // in hetsgd_add_plugin
  std::string path;           // as it was given
  std::uint64_t file_hash{};  // XXH3-64 of the file

  std::string hash_text() const;  // "xxh3:0123456789abcdef"
};

// Which file is meant, and who says so.
struct PluginSource {
  std::string path;
  std::string place;               // opens the messages: "--plugin", "HETSGD_PLUGIN", ...
  std::string expected_hash = "";  // as hash_text(); "": any
};

// Loads a plugin into this process; its algorithms and models are registered from then on. A file
// that is loaded already, by its bytes, is not loaded again. Which options a command has depends on
// what is registered, so commands load plugins before they declare any. `stamp` is the program's.
// Not thread-safe: before anything runs. Errors: data (the file cannot be read), usage (what was
// found and expected; the process must then end, since part of the plugin may be loaded).
void load_plugin(const PluginSource& source, std::string_view stamp);

// In the order in which they were loaded. Not to be read while one is being loaded.
const std::vector<Plugin>& loaded_plugins();

}  // namespace hetsgd
