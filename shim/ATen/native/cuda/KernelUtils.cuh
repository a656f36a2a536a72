// See ATen/cuda/detail/KernelUtils.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/cuda/Atomic.cuh"
#include "ATen/cuda/detail/KernelUtils.h"
