// See torch/csrc/stable/tensor.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/csrc/stable/tensor.h"
