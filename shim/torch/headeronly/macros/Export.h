// See c10/macros/Export.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/macros/Export.h"
#include "cupel/headeronly.h"
