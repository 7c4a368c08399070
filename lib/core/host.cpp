#include "core/host.hpp"

#include <sys/utsname.h>

namespace hetsgd {

std::string host_name() {
  utsname system{};
  ::uname(&system);
  return system.nodename;
}

}  // namespace hetsgd
