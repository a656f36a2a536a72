// See c10/core/Layout.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/Layout.h"
#include "cupel/headeronly.h"
