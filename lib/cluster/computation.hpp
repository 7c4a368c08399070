// Whether the calling thread is inside the function of a computation (Endpoint::compute), which
// makes no call of the vocabulary: in sim it runs on another thread and at another time, so that
// what works elsewhere by chance is refused everywhere.
#pragma once

namespace hetsgd {

class InComputation {
 public:
  // From here to the end of the scope the calling thread is in one. One that another one's function
  // has begun is refused before it comes here, so they do not nest.
  InComputation() { now_ = true; }
  ~InComputation() { now_ = false; }
  InComputation(const InComputation&) = delete;
  InComputation& operator=(const InComputation&) = delete;

  static bool now() { return now_; }

 private:
  static inline thread_local constinit bool now_ = false;
};

}  // namespace hetsgd
