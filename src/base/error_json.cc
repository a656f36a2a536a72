// SPDX-License-Identifier: Apache-2.0
#include "base/error_json.h"

#include "base/json.h"

namespace cupel {

Json ErrorToJson(const Error& error) {
  return {
      {"code", ErrorCodeName(error.code)}, {"message", error.message}, {"remedy", error.remedy}};
}

ErrorCode ErrorCodeNamed(std::string_view name) {
  for (const ErrorCode code :
       {ErrorCode::kInvalidArgument, ErrorCode::kNotFound, ErrorCode::kEnvironment, ErrorCode::kIo,
        ErrorCode::kTimeout, ErrorCode::kBusy, ErrorCode::kUnsupported, ErrorCode::kCancelled}) {
    if (name == ErrorCodeName(code)) return code;
  }
  return ErrorCode::kInternal;
}

}  // namespace cupel
