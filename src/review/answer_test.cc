// SPDX-License-Identifier: Apache-2.0
#include "review/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::review {
namespace {

using testing::HasSubstr;

std::string Problem(std::string_view text) {
  const auto stated = ReadAnswer(text);
  return stated ? "" : stated.error().message;
}

TEST(ReadAnswer, ReadsTheFourLinesAfterProse) {
  const auto stated = ReadAnswer(
      "I checked the guards.\n\n**VERDICT:** wrong\n**CONFIDENCE:** 0.9\n"
      "LINE: `12: y[i + 1] = x[i];`\nREASON: at i = n - 1 it writes\npast the end\n");
  ASSERT_TRUE(stated) << stated.error().message;
  EXPECT_FALSE(stated->fine);
  EXPECT_EQ(stated->confidence, 0.9);
  EXPECT_EQ(stated->line_number, 12);
  EXPECT_EQ(stated->line, "y[i + 1] = x[i];");
  EXPECT_EQ(stated->reason, "at i = n - 1 it writes past the end");
}

TEST(ReadAnswer, AcceptsFineWithoutALine) {
  const auto stated = ReadAnswer("VERDICT: fine\nCONFIDENCE: 1\nLINE: none\nREASON: all guarded");
  ASSERT_TRUE(stated);
  EXPECT_TRUE(stated->fine);
  EXPECT_EQ(stated->line, "");
}

TEST(ReadAnswer, ReportsWhatIsWrong) {
  const std::string rest = "\nCONFIDENCE: 0.5\nLINE: none\nREASON: r\n";
  EXPECT_THAT(Problem(""), HasSubstr("no VERDICT line"));
  EXPECT_THAT(Problem("It is fine."), HasSubstr("no VERDICT line"));
  EXPECT_THAT(Problem("VERDICT: True" + rest), HasSubstr("must be fine or wrong"));
  EXPECT_THAT(Problem("VERDICT: fine or wrong" + rest), HasSubstr("must be fine or wrong"));
  EXPECT_THAT(Problem("VERDICT: fine" + rest + "VERDICT: wrong"), HasSubstr("more than one"));
  EXPECT_THAT(Problem("VERDICT: wrong" + rest), HasSubstr("LINE names no line"));
  EXPECT_THAT(Problem("VERDICT: fine\nCONFIDENCE: high\nLINE: none\nREASON: r"),
              HasSubstr("CONFIDENCE"));
  for (const char* number : {"1.5", "-0.1", "nan", "0.5 or so", "85%"}) {
    EXPECT_NE(
        Problem(std::string("VERDICT: fine\nCONFIDENCE: ") + number + "\nLINE: none\nREASON: r"),
        "")
        << number;
  }
  EXPECT_THAT(Problem("VERDICT: fine\nLINE: none\nCONFIDENCE: 1\nREASON: r"), HasSubstr("before"));
  EXPECT_THAT(Problem("VERDICT: wrong\nCONFIDENCE: 1\nLINE: the loop\nREASON: r"),
              HasSubstr("LINE must be none"));
  EXPECT_THAT(Problem("VERDICT: fine\nCONFIDENCE: 1\nLINE: none\nREASON:"), HasSubstr("REASON"));
  EXPECT_THAT(Problem(std::string(300000, 'x')), HasSubstr("longer"));
}

TEST(ReadAnswers, ReadsOnePartForEachCheck) {
  const std::vector<Aspect> aspects = {Aspect::kMemory, Aspect::kNumerics};
  const std::string rest = "CONFIDENCE: 0.5\nLINE: none\nREASON: r\n";
  const auto fine = [&](const std::string& name) {
    return "**CHECK: " + name + "**\nVERDICT: fine\n" + rest;
  };
  const auto read =
      ReadAnswers("Let me see.\n" + fine("memory") + "\n" +
                      "CHECK: numerics\nVERDICT: wrong\nCONFIDENCE: 1\nLINE: 3: x = 2;\n"
                      "REASON: off\nby one\n",
                  aspects);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE((*read)[0].fine);
  EXPECT_FALSE((*read)[1].fine);
  EXPECT_EQ((*read)[1].reason, "off by one");
  const auto problem = [&](const std::string& text) {
    const auto stated = ReadAnswers(text, aspects);
    return stated ? "" : stated.error().message;
  };
  EXPECT_THAT(problem(fine("memory")), HasSubstr("1 CHECK lines, but 2 checks"));
  EXPECT_THAT(problem(fine("numerics") + fine("memory")), HasSubstr("it must be memory"));
  EXPECT_THAT(problem(fine("memory") + "CHECK: numerics\n" + rest), HasSubstr("numerics: "));
  EXPECT_THAT(problem(std::string(300000, 'x')), HasSubstr("longer"));
  for (const Aspect aspect : aspects) {
    EXPECT_THAT(AnswerFormat(aspects), HasSubstr(std::string("CHECK: ") + Name(aspect)));
  }
  EXPECT_EQ(AnswerFormat({Aspect::kMemory}).find("CHECK"), std::string::npos);
}

TEST(FindQuote, FindsQuotesInTheSource) {
  const std::string source = "int a;\n  y[i]  = x[i];\nif (i < n) y[i] = x[i];\n";
  const auto at = [&](int number, const char* line) {
    Stated stated;
    stated.line_number = number;
    stated.line = line;
    return FindQuote(source, stated);
  };
  EXPECT_EQ(at(2, "y[i] = x[i];"), 2);
  EXPECT_EQ(at(3, "y[i] = x[i];"), 3);  // matches a part of the line
  EXPECT_EQ(at(9, "y[i] = x[i];"), 2);  // only the number is wrong
  EXPECT_EQ(at(1, "int"), 0);           // too short for a partial match
  EXPECT_EQ(at(1, "y[i] = x[j];"), 0);
  EXPECT_EQ(at(0, ""), 0);
}

}  // namespace
}  // namespace cupel::review
