// See c10/util/Float8_e4m3fnuz.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Float8_e4m3fnuz.h"
#include "cupel/headeronly.h"
