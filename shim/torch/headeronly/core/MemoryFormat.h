// See c10/core/MemoryFormat.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/MemoryFormat.h"
#include "cupel/headeronly.h"
