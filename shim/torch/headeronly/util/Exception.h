// See c10/util/Exception.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Exception.h"
#include "cupel/headeronly.h"
