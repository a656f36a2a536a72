// SPDX-License-Identifier: Apache-2.0
#include "app/selftest/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace cupel::app {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<Specimen> Read(Corpus corpus, std::string_view source) {
  return ReadSpecimen(corpus, "tests/mustfail/cheat.cu", source);
}

TEST(Corpus, ReadsHeaderLines) {
  const auto specimen = Read(Corpus::kMustFail,
                             "// exploit: 6.1 a library\n// task: mnist_linear\n"
                             "// direction: backward\n// settings: all\n"
                             "// expect: rejected|unsupported unsupported_api|compile_error\n"
                             "// SPDX-License-Identifier: Apache-2.0\n// task: not_the_head\n");
  ASSERT_TRUE(specimen) << specimen.error().message;
  EXPECT_EQ(specimen->name, "mustfail/cheat");
  EXPECT_EQ(specimen->task, "mnist_linear");
  EXPECT_EQ(specimen->settings, "all");
  EXPECT_TRUE(specimen->backward);
  EXPECT_THAT(specimen->decisions, ElementsAre("rejected", "unsupported"));
  EXPECT_THAT(specimen->codes, ElementsAre("unsupported_api", "compile_error"));
  EXPECT_EQ(specimen->exploit, "6.1 a library");
}

TEST(Corpus, MustPassKernelIsExpectedToBeAccepted) {
  const auto specimen =
      Read(Corpus::kMustPass, "// task: softmax\n// device: gpu\n// model: b200\n");
  ASSERT_TRUE(specimen) << specimen.error().message;
  EXPECT_THAT(specimen->decisions, ElementsAre("accepted"));
  EXPECT_TRUE(specimen->codes.empty());
  EXPECT_TRUE(specimen->needs_gpu);
  EXPECT_EQ(specimen->model, "b200");
  EXPECT_FALSE(specimen->needs_emulator);
}

TEST(Corpus, InvalidHeaderIsAnErrorWithItsLine) {
  const auto wrong =
      Read(Corpus::kMustFail, "// exploit: 1.1\n// task: t\n// expect: accepted wrong_result\n");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, HasSubstr("cheat.cu:3"));
  EXPECT_FALSE(Read(Corpus::kMustFail, "// task: t\n// expect: rejected wrong_result\n"));
  EXPECT_FALSE(Read(Corpus::kMustFail, "// exploit: 1.1\n// task: t\n"));
  EXPECT_FALSE(Read(Corpus::kMustFail, "// exploit: 1.1\n// expect: rejected wrong_result\n"));
  // A kernel of mustpass cannot expect a rejection.
  EXPECT_FALSE(Read(Corpus::kMustPass, "// task: t\n// expect: rejected wrong_result\n"));
  EXPECT_FALSE(Read(Corpus::kMustPass, "// task: t\n// devcie: gpu\n"));
}

TEST(Corpus, ReadsTheCorporaOfTheRepository) {
  const auto specimens = ReadCorpora(CUPEL_SOURCE_DIR);
  ASSERT_TRUE(specimens) << specimens.error().message;
  std::set<std::string> names;
  int honest = 0;
  for (const Specimen& specimen : *specimens) {
    names.insert(specimen.name);
    honest += specimen.corpus == Corpus::kMustPass ? 1 : 0;
  }
  EXPECT_EQ(names.size(), specimens->size());
  EXPECT_GE(honest, 40);
  EXPECT_GE(specimens->size() - static_cast<size_t>(honest), 66u);
}

}  // namespace
}  // namespace cupel::app
