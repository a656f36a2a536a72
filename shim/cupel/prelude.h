// What every header of the shim stands on: the macro CUPEL_SHIM, the standard headers that
// PyTorch's own headers bring along and candidates rely on without naming, and the switches that
// keep a build short. The shim is parsed three times a build (host, device, host compiler), so:
//  - bodies of ordinary functions are hidden from the device pass (CUPEL_HOST_PASS, CUPEL_INLINE);
//  - whoever has scanned the candidate's text may leave out what it cannot need (CUPEL_LEAN_*).
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

// Host functions need no body where device code is generated; leaving it out saves a third of the
// shim's parse time. `inline` must go too, or the compiler misses the definition.
#ifdef __CUDA_ARCH__
#define CUPEL_HOST_PASS 0
#define CUPEL_INLINE
#else
#define CUPEL_HOST_PASS 1
#define CUPEL_INLINE inline
#endif

#ifdef __CUDACC__
#define CUPEL_HOST_DEVICE __host__ __device__
#else
#define CUPEL_HOST_DEVICE
#endif
