// SPDX-License-Identifier: Apache-2.0
#include "os/file_stamp.h"

#include <gtest/gtest.h>

#include "os/files.h"
#include "os/temp_dir.h"

namespace cupel::os {
namespace {

TEST(FileStamp, DetectsReplacedFile) {
  const auto folder = *TempDir::Create();
  const auto file = folder.path() / "x.json";
  EXPECT_FALSE(StampOf(file));
  EXPECT_FALSE(StampOf(""));
  ASSERT_TRUE(WriteFileAtomically(file, "a"));
  const auto first = StampOf(file);
  ASSERT_TRUE(first);
  EXPECT_EQ(StampOf(file), first);
  ASSERT_TRUE(WriteFileAtomically(file, "a"));
  EXPECT_NE(StampOf(file), first);
}

}  // namespace
}  // namespace cupel::os
