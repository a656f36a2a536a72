// See ATen/cuda/Atomic.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/cuda/Atomic.cuh"
