// See cupel/prelude.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/headeronly.h"
