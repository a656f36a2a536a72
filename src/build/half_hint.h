// PyTorch compiles extensions without the operators and conversions of __half and __nv_bfloat16,
// and so does cupel. Published kernels often undo that in their own build. SPDX-License-Identifier:
// Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "build/image.h"

namespace cupel::build {

/// What allows the operators and conversions that the errors among `diagnostics` are about, as the
/// end of a message: "; … (--flag=-U__CUDA_NO_HALF_OPERATORS__)". Empty if no error is about them,
/// or `flags` of the build allow them already.
std::string HalfHint(const std::vector<Diagnostic>& diagnostics,
                     const std::vector<std::string>& flags);

}  // namespace cupel::build
