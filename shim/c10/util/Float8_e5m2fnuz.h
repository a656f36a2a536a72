// c10::Float8_e5m2fnuz.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/float8_fnuz.h"
