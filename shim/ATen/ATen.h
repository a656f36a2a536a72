// The tensor library without its mathematics.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/AccumulateType.h"
#include "ATen/Context.h"
#include "ATen/DeviceGuard.h"
#include "ATen/Dispatch.h"
#include "ATen/Parallel.h"
#include "ATen/TensorUtils.h"
#include "ATen/ceil_div.h"
#include "ATen/core/Tensor.h"
#include "c10/util/accumulate.h"
#include "c10/util/irange.h"
#include "cupel/grad_mode.h"
#include "cupel/indexing.h"
#include "cupel/operators.h"

// Empty, so that the compiler names the missing operator.
namespace at {
namespace native {}
namespace functorch {}
}  // namespace at
