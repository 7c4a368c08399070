// A plugin is a shared library with algorithms and models that are built outside of this tree
// (find_package(hetsgd), see algorithm/README.md).
//
// A plugin shares C++ classes with the program, so both must be compiled from the same headers, by
// the same compiler, with the same flags. hetsgd_add_plugin compiles a stamp of these into the
// plugin (core/version.hpp, build_stamp). The stamp is read from the bytes of the file, so no code
// of an unfit plugin runs.
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

// A plugin as the result names it. The hash covers the bytes that were compared and opened. `hetsgd
// rerun` needs the same ones, and all ranks of a run must have loaded the same.
struct Plugin {
  std::string name;           // given to hetsgd_add_plugin
  std::string path;           // as the user gave it
  std::uint64_t file_hash{};  // XXH3-64 of the file

  std::string hash_text() const;  // "xxh3:0123456789abcdef"
};

// The file of a plugin, and where it was named.
struct PluginSource {
  std::string path;
  std::string place;               // opens the messages: "--plugin", "HETSGD_PLUGIN", ...
  std::string expected_hash = "";  // in the form of hash_text(); "": any
};

// Loads a plugin into this process; its algorithms and models are registered from then on. A file
// with the bytes of a loaded one is not loaded again. Which options a command has depends on what
// is registered, so commands load plugins before they declare any. `stamp` is the program's. Not
// thread-safe: to be called before anything runs. Throws Error(data) if the file cannot be read.
// Throws Error(usage), which says what was found and expected, if it is not a fitting plugin. The
// process must then end, because part of the plugin may be loaded.
void load_plugin(const PluginSource& source, std::string_view stamp);

// The loaded plugins in load order. Not to be read while another one is being loaded.
const std::vector<Plugin>& loaded_plugins();

}  // namespace hetsgd
