// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"
namespace cupel::cli {
Result<int> Run(const ConfirmCommand&) { return Fail(ErrorCode::kUnsupported, "unsupported: x"); }
}
