// See c10/util/Float8_e5m2fnuz.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Float8_e5m2fnuz.h"
#include "cupel/headeronly.h"
