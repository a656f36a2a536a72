// Every header of the shim includes this one. It defines the macro CUPEL_SHIM and the switches that
// keep a build short. It includes the standard headers that PyTorch's own headers include and
// candidates therefore use without including them. A build parses the shim three times (host,
// device, host compiler), so:
//  - bodies of ordinary functions are hidden from passes that do not need them (CUPEL_BODIES);
//  - a caller that has scanned the candidate's text may leave out what it does not use
//    (CUPEL_LEAN_*).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define CUPEL_SHIM 1

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <limits>
#include <new>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef CUPEL_LEAN_STD
#include <iosfwd>
#else
#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#undef CUPEL_LEAN_STRING
#endif

#ifndef CUPEL_LEAN_STRING
#include <stdexcept>
#include <string>
#include <string_view>
#endif

// Bodies of ordinary host functions are inside `#if CUPEL_BODIES`, so that a build parses and
// compiles only what it must. The pass that generates device code needs none, and neither does a
// candidate linked with the compiled runtime (-DCUPEL_SHIM_LINKED and the object of
// cupel/runtime.cc). Without CUPEL_SHIM_LINKED the shim is header-only.
#ifdef __CUDA_ARCH__
#define CUPEL_HOST_PASS 0
#else
#define CUPEL_HOST_PASS 1
#endif
#if CUPEL_HOST_PASS && !defined(CUPEL_SHIM_LINKED)
#define CUPEL_BODIES 1
#else
#define CUPEL_BODIES 0
#endif
#ifdef CUPEL_SHIM_RUNTIME
#define CUPEL_INLINE
#else
#define CUPEL_INLINE inline
#endif

#ifdef __CUDACC__
#define CUPEL_HOST_DEVICE __host__ __device__
#else
#define CUPEL_HOST_DEVICE
#endif
