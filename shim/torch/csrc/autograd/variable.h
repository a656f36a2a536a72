// See torch/types.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch/types.h"
