// See c10/core/DeviceType.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/DeviceType.h"
#include "cupel/headeronly.h"
