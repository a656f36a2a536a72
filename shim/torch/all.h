// Tensors under the name torch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/library.h"
#include "torch/types.h"
