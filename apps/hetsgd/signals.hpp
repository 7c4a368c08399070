// SIGINT and SIGTERM: the first one asks for an orderly end, the second one kills.
#pragma once

#include <atomic>

namespace hetsgd {

// Installs the handlers. The value becomes the signal's number when one arrives.
const std::atomic<int>& catch_signals();
int received_signal();  // 0: none

}  // namespace hetsgd
