// See c10/core/DeviceGuard.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/DeviceGuard.h"

namespace at {
using namespace c10;
}
