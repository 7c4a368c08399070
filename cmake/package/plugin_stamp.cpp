// Compiled into every plugin by hetsgd_add_plugin: what `hetsgd train --plugin` reads from the file's bytes before it
// runs any of its code. The first line marks the place (training/plugins.cpp looks for it).
#include "build_stamp.hpp"

namespace {
[[gnu::used, gnu::section(".hetsgd_plugin")]] const char stamp[] =
    "\x7fhetsgd plugin\nname: " HETSGD_PLUGIN_NAME "\n" HETSGD_BUILD_STAMP;
}  // namespace
