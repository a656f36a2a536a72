// See c10/cuda/CUDAStream.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/cuda/CUDAStream.h"
