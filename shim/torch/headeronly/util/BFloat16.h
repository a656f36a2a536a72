// See c10/util/BFloat16.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/BFloat16.h"
#include "cupel/headeronly.h"
