#include "overwrite.hpp"

#include <sys/stat.h>

#include "core/error.hpp"

namespace hetsgd {

void refuse_to_overwrite(const std::string& path, bool overwrite) {
  struct stat status {};
  if (overwrite || ::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  throw with_hint(usage_error("{}: the file exists", path), "--overwrite replaces it");
}

}  // namespace hetsgd
