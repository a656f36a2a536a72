// The shim's ordinary functions, compiled once and linked into every candidate that was built with
// -DCUPEL_SHIM_LINKED, which makes a build about twice as fast. Compile with
//   g++ -std=c++17 -O2 -fPIC -fvisibility=hidden -I shim -I CUDA/include -c shim/cupel/runtime.cc
// SPDX-License-Identifier: Apache-2.0
#define CUPEL_SHIM_RUNTIME 1
#define CUPEL_LEAN_STD 1  // no <iostream>: its static constructor would run in every candidate

#include "torch/extension.h"
