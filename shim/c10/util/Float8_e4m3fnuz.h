// c10::Float8_e4m3fnuz.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/float8_fnuz.h"
