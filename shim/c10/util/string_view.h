// c10::string_view is std::string_view.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cupel/prelude.h"

#ifndef CUPEL_LEAN_STRING
namespace c10 {
using std::string_view;
}
#endif
