// THO_DISPATCH_V2: see ATen/Dispatch_v2.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/Dispatch_v2.h"
#include "torch/headeronly/core/Dispatch.h"

#define THO_DISPATCH_V2 AT_DISPATCH_V2  // not a call, which would expand AT_WRAP too early
