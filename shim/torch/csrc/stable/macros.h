// Checks of calls of CUDA and of the stable ABI.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/cuda/CUDAException.h"
#include "torch/csrc/stable/version.h"
#include "torch/headeronly/util/Exception.h"
#include "torch/headeronly/util/shim_utils.h"

#define STD_CUDA_CHECK(expr) C10_CUDA_CHECK(expr)
#define STD_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_KERNEL_LAUNCH_CHECK()
#define STABLE_TORCH_ERROR_CODE_CHECK(call) TORCH_ERROR_CODE_CHECK(call)
