// The results of the stable ABI's C functions. In the shim they succeed or do not return.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "c10/util/Exception.h"

#define TORCH_SUCCESS 0
#define TORCH_FAILURE 1
#define TORCH_ERROR_CODE_CHECK(call) TORCH_CHECK((call) == TORCH_SUCCESS, #call " failed")
