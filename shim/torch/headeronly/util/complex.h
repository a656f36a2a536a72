// See c10/util/complex.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/complex.h"
#include "cupel/headeronly.h"
