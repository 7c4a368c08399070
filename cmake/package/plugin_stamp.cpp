// The stamp that hetsgd_add_plugin compiles into every plugin. `hetsgd train --plugin` reads it
// from the file's bytes before it runs any of the plugin's code. The first line marks the place
// (training/plugins.cpp looks for it).
#include "build_stamp.hpp"

namespace {
[[gnu::used, gnu::section(".hetsgd_plugin")]] const char stamp[] =
    "\x7fhetsgd plugin\nname: " HETSGD_PLUGIN_NAME "\n" HETSGD_BUILD_STAMP;
}  // namespace
