// Calls a function at the end of a scope that an exception leaves.
#pragma once

#include <exception>
#include <utility>

#include "core/non_copyable.hpp"

namespace hetsgd {

template <class Fn>
class AtUnwinding : NonCopyable {
 public:
  explicit AtUnwinding(Fn fn) : fn_(std::move(fn)) {}
  ~AtUnwinding() {
    if (std::uncaught_exceptions() > exceptions_) fn_();
  }

 private:
  Fn fn_;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace hetsgd
