// The kernels of a CPU device share its cores, and how its dense products round their factors.
#pragma once

#include "linalg/cores/cores.hpp"
#include "linalg/operands.hpp"

namespace hetsgd::cpu {

class Backend : public Cores {
 public:
  Backend(int cores, Precision precision) : Cores(cores), precision_(precision) {}
  // A team of `count` of the cores of `whole`, which outlives it.
  Backend(const Backend& whole, std::size_t count)
      : Cores(whole, count), precision_(whole.precision_) {}

  Precision precision() const { return precision_; }

 private:
  const Precision precision_;  // of products of floats; those of doubles are never rounded
};

}  // namespace hetsgd::cpu
