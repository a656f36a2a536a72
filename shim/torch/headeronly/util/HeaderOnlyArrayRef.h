// See c10/util/ArrayRef.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/ArrayRef.h"
#include "cupel/headeronly.h"
