// See c10/core/Storage.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/core/Storage.h"
