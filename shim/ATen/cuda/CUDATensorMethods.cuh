// See ATen/core/Tensor.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/core/Tensor.h"
