// SPDX-License-Identifier: Apache-2.0
#include "build/compile_watch.h"

#include <gtest/gtest.h>

namespace cupel::build {
namespace {

TEST(CompileWatch, NamesFilesAndTools) {
  CompileWatch watch(3, nullptr);
  EXPECT_EQ(watch.Text(), "compiling, 0 of 3 files done");
  watch.Begins("a.cu", "cicc");
  watch.Begins("b.cu", "gcc");
  EXPECT_EQ(watch.Text(), "compiling, 0 of 3 files done: cicc (a.cu), gcc (b.cu)");
  watch.Begins("a.cu", "cudafe++");
  EXPECT_EQ(watch.Text(), "compiling, 0 of 3 files done: cicc (a.cu), cudafe++ (a.cu), gcc (b.cu)");
  watch.Ends("a.cu", "cudafe++");
  watch.Ends("b.cu", "gcc");
  watch.Finishes();
  EXPECT_EQ(watch.Text(), "compiling, 1 of 3 files done: cicc (a.cu)");
}

TEST(CompileWatch, DoesNotCountASingleFile) {
  CompileWatch watch(1, nullptr);
  watch.Begins("a.cu", "cicc");
  EXPECT_EQ(watch.Text(), "compiling: cicc (a.cu)");
}

TEST(CompileWatch, SaysNothingAfterItsEnd) {
  int said = 0;
  {
    CompileWatch watch(1, [&said](const std::string&) { ++said; });
  }
  EXPECT_EQ(said, 0);
}

}  // namespace
}  // namespace cupel::build
