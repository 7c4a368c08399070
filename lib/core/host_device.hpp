// Functions that run on the host and, where nvcc compiles them, on the GPU as well.
#pragma once

#ifdef __CUDACC__
#define HETSGD_HOST_DEVICE __host__ __device__
#else
#define HETSGD_HOST_DEVICE
#endif
