// Warp primitives and THCCeilDiv.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/cuda/DeviceUtils.cuh"
#include "THC/THC.h"
