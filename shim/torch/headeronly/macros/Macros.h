// See c10/macros/Macros.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/macros/Macros.h"
#include "cupel/headeronly.h"
