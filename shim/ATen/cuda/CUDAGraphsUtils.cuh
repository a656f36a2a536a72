// See ATen/cuda/PhiloxUtils.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/cuda/PhiloxUtils.cuh"
