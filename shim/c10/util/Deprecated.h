// Marks of deprecation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/macros/Macros.h"

#define C10_DEPRECATED [[deprecated]]
#define C10_DEPRECATED_MESSAGE(message) [[deprecated(message)]]
