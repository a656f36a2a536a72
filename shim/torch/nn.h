// See torch/nn/functional.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/nn/functional.h"
