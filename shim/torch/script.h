// Tensors and operator registration; there is no TorchScript.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/all.h"
