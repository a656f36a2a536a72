// See c10/util/Half.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Half.h"
#include "cupel/headeronly.h"
