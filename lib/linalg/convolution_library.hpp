// Who computes a GPU's convolutions: a choice of runs, apart from what is computed.
#pragma once

namespace hetsgd {

// own: windows copied out (im2col) and products by cuBLAS; cudnn: NVIDIA's cuDNN, by algorithms of
// deterministic bits. The two add in different orders.
enum class ConvolutionLibrary { own, cudnn };

}  // namespace hetsgd
