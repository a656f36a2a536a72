// See torch/csrc/inductor/aoti_torch/c/shim.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/csrc/inductor/aoti_torch/c/shim.h"
