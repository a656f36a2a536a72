// SPDX-License-Identifier: Apache-2.0
#include "assay/few_inputs.h"

#include <gtest/gtest.h>

namespace cupel::assay {
namespace {

TEST(FewInputs, LargerCasesGetFewerTrials) {
  EXPECT_GE(FewInputsAt(32u << 20, task::SettingKind::kMulti).trials, 64);
  EXPECT_EQ(FewInputsAt((32u << 20) + 1, task::SettingKind::kMulti).trials, 2);
  EXPECT_EQ(FewInputsAt(size_t{513} << 20, task::SettingKind::kMulti).trials, 1);
}

TEST(FewInputs, SingleSettingsHaveOtherInputsAtEverySize) {
  for (const size_t bytes : {size_t{1}, size_t{1} << 26, size_t{1} << 32}) {
    EXPECT_GE(FewInputsAt(bytes, task::SettingKind::kSingle).kinds, 1u) << bytes;
  }
  EXPECT_EQ(FewInputsAt(size_t{1} << 26, task::SettingKind::kMulti).kinds, 2u);
  EXPECT_EQ(FewInputsAt(size_t{1} << 32, task::SettingKind::kMulti).kinds, 0u);
}

}  // namespace
}  // namespace cupel::assay
