// Output files that are there already.
#pragma once

#include <string>

namespace hetsgd {

// Errors (usage): `path` is a regular file, and --overwrite was not given.
void refuse_to_overwrite(const std::string& path, bool overwrite);

}  // namespace hetsgd
