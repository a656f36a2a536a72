// See c10/core/ScalarType.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/ScalarType.h"
#include "cupel/headeronly.h"
