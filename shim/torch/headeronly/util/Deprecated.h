// See c10/util/Deprecated.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Deprecated.h"
#include "cupel/headeronly.h"
