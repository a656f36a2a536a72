// SPDX-License-Identifier: Apache-2.0
#include "assay/few_inputs.h"

#include <limits>

namespace cupel::assay {

FewInputs FewInputsAt(size_t case_bytes, task::SettingKind kind) {
  constexpr size_t kMany = 32u << 20, kVeryMany = 512u << 20;
  if (case_bytes > kVeryMany)
    return {1, kind == task::SettingKind::kSingle ? size_t{1} : size_t{0}};
  if (case_bytes > kMany) return {2, 2};
  return {std::numeric_limits<int>::max(), 2};
}

}  // namespace cupel::assay
