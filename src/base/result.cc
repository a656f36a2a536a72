// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cstdio>
#include <cstdlib>

namespace cupel {

std::string Error::ToString() const { return remedy.empty() ? message : message + "; " + remedy; }

const char* ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kEnvironment:
      return "environment";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kBusy:
      return "busy";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "cupel: internal error: check failed: %s (%s:%d); please report this bug\n",
               condition, file, line);
  std::abort();
}

}  // namespace cupel
