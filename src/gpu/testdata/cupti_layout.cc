// Compares the assumptions of gpu/cupti.cc with the toolkit's headers, if there are any. Compiled,
// never run.
// SPDX-License-Identifier: Apache-2.0
#if __has_include(<cupti_activity.h>)
#include <cupti_activity.h>

#include <cstddef>

template <typename Record>
constexpr bool kIsAsExpected = offsetof(Record, kind) == 0 && offsetof(Record, start) == 16 &&
                               offsetof(Record, end) == 24 && offsetof(Record, name) == 104;
static_assert(kIsAsExpected<CUpti_ActivityKernel9>);
static_assert(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL == 10 && CUPTI_ACTIVITY_KIND_KERNEL == 3);
static_assert(CUPTI_ERROR_MAX_LIMIT_REACHED == 12 && CUPTI_ERROR_INSUFFICIENT_PRIVILEGES == 35);
#endif
