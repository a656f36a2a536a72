// torch::headeronly: the parts of c10 that need no library, as the stable ABI names them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/DeviceType.h"
#include "c10/core/Layout.h"
#include "c10/core/MemoryFormat.h"
#include "c10/core/ScalarType.h"
#include "c10/macros/Macros.h"
#include "c10/util/ArrayRef.h"
#include "c10/util/BFloat16.h"
#include "c10/util/Float8_e4m3fn.h"
#include "c10/util/Float8_e5m2.h"
#include "c10/util/Half.h"

namespace torch::headeronly {
using namespace c10;  // NOLINT: as in PyTorch
template <class T>
using HeaderOnlyArrayRef = c10::ArrayRef<T>;
using IntHeaderOnlyArrayRef = HeaderOnlyArrayRef<int64_t>;
}  // namespace torch::headeronly
