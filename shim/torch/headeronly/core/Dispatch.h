// THO_DISPATCH_*: see ATen/Dispatch.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ATen/Dispatch.h"
#include "cupel/headeronly.h"

#define THO_PRIVATE_CASE_TYPE_USING_HINT(type, hint, ...) \
  AT_PRIVATE_CASE_TYPE_USING_HINT(type, hint, __VA_ARGS__)
#define THO_DISPATCH_CASE(type, ...) AT_DISPATCH_CASE(type, __VA_ARGS__)
#define THO_DISPATCH_SWITCH(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, __VA_ARGS__)
#define THO_EMPTY(...)
