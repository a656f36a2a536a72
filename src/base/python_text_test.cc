// SPDX-License-Identifier: Apache-2.0
#include "base/python_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace cupel {
namespace {

using testing::ElementsAre;

std::vector<std::string> Contents(std::string_view text) {
  std::vector<std::string> contents;
  for (const PythonPiece& piece : SplitPython(text)) {
    if (piece.kind != PythonPiece::Kind::kString) continue;
    contents.push_back((piece.is_raw ? "r:" : "") + std::string(piece.content));
  }
  return contents;
}

TEST(SplitPython, FindsStrings) {
  EXPECT_THAT(Contents("a = 'x' + \"y\""), ElementsAre("x", "y"));
  EXPECT_THAT(Contents("'''a'b''c\n'''; ''"), ElementsAre("a'b''c\n", ""));
  EXPECT_THAT(Contents("r'a' rb\"b\" f'c' Rf'd' bar'e'"),
              ElementsAre("r:a", "r:b", "c", "r:d", "e"));
  EXPECT_THAT(Contents("'a\\'b' r'\\' '"), ElementsAre("a\\'b", "r:\\' "));
  EXPECT_THAT(Contents("'it ends\nhere' + 'a \\\n b'"), ElementsAre("it ends", " + ", ""))
      << "an unclosed quote ends with its line";
  EXPECT_THAT(Contents("'''open\n'"), ElementsAre("open\n'"));
}

TEST(SplitPython, FindsComments) {
  EXPECT_EQ(PythonCodeOnly("a # it's 'b'\nc"), "a           \nc");
  EXPECT_EQ(PythonCodeOnly("'# no'; b"), "'    '; b");
}

TEST(SplitPython, PiecesAreTheText) {
  constexpr char kAlphabet[] = "'\"\\#\nrb ";
  Random random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string text, joined;
    for (uint64_t length = random.Below(30); length > 0; --length) {
      text += kAlphabet[random.Below(sizeof kAlphabet - 1)];
    }
    for (const PythonPiece& piece : SplitPython(text)) joined += piece.text;
    EXPECT_EQ(joined, text);
    EXPECT_EQ(PythonCodeOnly(text).size(), text.size());
  }
}

}  // namespace
}  // namespace cupel
