// HETSGD_FOR_EACH_PROCESSOR stands before a function that is compiled for all processors: the
// compiler makes it three times, for x86-64-v4, for x86-64-v3 and for the rest, and the program
// calls the one for its processor. It is for loops outside of linalg/cpu that measurably gain by
// it. The functions that such a loop calls must be inline, because the compiler puts the whole loop
// into vectors. The bits are the same (-ffp-contract=off).
#pragma once

#if defined(__x86_64__) && !defined(__AVX2__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HETSGD_FOR_EACH_PROCESSOR \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define HETSGD_FOR_EACH_PROCESSOR
#endif
