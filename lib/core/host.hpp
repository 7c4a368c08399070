// The machine that this process runs on.
#pragma once

#include <string>

namespace hetsgd {

// The name that the system gives this host ("nodename" of uname). Hosts of one cluster have
// different ones; containers that share a folder may not.
std::string host_name();

}  // namespace hetsgd
