// SPDX-License-Identifier: Apache-2.0
#include "evolve/reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cupel::evolve {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

constexpr const char* kReplied = "__global__ void k() {}\nPYBIND11_MODULE(x, m) {}\n";

std::string Fenced(const std::string& code, const std::string& info = "cuda") {
  return "```" + info + "\n" + code + "```\n";
}

std::string ErrorOf(const std::string& text) {
  const auto reply = ReadReply(text);
  if (reply) return "no error";
  EXPECT_EQ(reply.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(reply.error().remedy, HasSubstr("NAME:"));
  return reply.error().message;
}

TEST(ReadReply, TakesNameThoughtAndKernel) {
  const auto reply = ReadReply("Sure!\n\nNAME: wide_loads\nTHOUGHT: Load float4.\nIt is faster.\n" +
                               Fenced(kReplied));
  ASSERT_TRUE(reply) << reply.error().ToString();
  EXPECT_EQ(reply->name, "wide_loads");
  EXPECT_EQ(reply->thought, "Load float4.\nIt is faster.");
  EXPECT_EQ(reply->code, kReplied);
  EXPECT_FALSE(reply->done);
  EXPECT_THAT(reply->edits, SizeIs(0));
}

TEST(ReadReply, AcceptsMarkdownDecoration) {
  for (const std::string info : {"", "cpp", "CUDA", "c++", "cu title=\"k.cu\"", " cuda"}) {
    const auto reply =
        ReadReply("**NAME:** a b\n### Thought: c\n**CODE**:\n" + Fenced(kReplied, info));
    ASSERT_TRUE(reply) << info;
    EXPECT_EQ(reply->name, "a b");
    EXPECT_EQ(reply->thought, "c");
    EXPECT_EQ(reply->code, kReplied);
  }
  EXPECT_EQ(ReadReply("~~~~cuda\n" + std::string(kReplied) + "~~~~\n")->code, kReplied);
  EXPECT_EQ(ReadReply("1. Code:\n   ```cuda\n" + std::string(kReplied) + "   ```")->code, kReplied);
}

TEST(ReadReply, ReadsCarriageReturnsAsLineEnds) {
  const auto reply = ReadReply("NAME: n\r\n```cuda\r\nint a;\r\nint b;\r\n```\r\n");
  EXPECT_EQ(reply->name, "n");
  EXPECT_EQ(reply->code, "int a;\nint b;\n");
}

TEST(ReadReply, SkipsReasoning) {
  const std::string draft = "NAME: draft\n```cuda\nint draft;\n";
  const std::string answer = "NAME: final\n" + Fenced(kReplied);
  EXPECT_EQ(ReadReply("<think>" + draft + "</think>\n" + answer)->name, "final");
  EXPECT_EQ(ReadReply(draft + "\n</think>\n" + answer)->name, "final");
  EXPECT_THAT(ErrorOf("<think>" + draft + answer), HasSubstr("cut: there is no </think>"));
}

TEST(ReadReply, DetectsACutAnswer) {
  EXPECT_THAT(ErrorOf("NAME: n\n```cuda\nint main() {\n  int x"),
              HasSubstr("cut: the code block that begins at line 2 has no closing fence"));
  EXPECT_THAT(ErrorOf("<<<<<<< SEARCH\na\n=======\nb\n"),
              HasSubstr("cut: the edit that begins at line 1"));
}

TEST(ReadReply, IgnoresFencesInCommentsAndStrings) {
  const std::string code =
      "/* usage:\n```\nfoo\n```\n*/\nconst char* s = R\"(\n```\n)\";\nchar c = '\"'; // ```\n";
  EXPECT_EQ(ReadReply(Fenced(code))->code, code);
  EXPECT_THAT(ErrorOf(Fenced("/* never closed\n")), HasSubstr("a comment or string in it"));
}

TEST(ReadReply, RejectsAFenceWithinABlock) {
  EXPECT_THAT(ErrorOf("```cuda\nint a;\n\nand then:\n```cuda\nint b;\n```\n"),
              HasSubstr("line 5: a fence inside the code block that begins at line 1"));
}

TEST(ReadReply, TakesTheLastBlockIfOnlyThatIsAKernel) {
  const std::string snippet = Fenced("float4 v = load(p);\n");
  const std::string kernel = Fenced(kReplied);
  EXPECT_EQ(ReadReply(snippet + "so:\n" + kernel)->code, kReplied);
  EXPECT_THAT(ErrorOf(kernel + snippet), HasSubstr("2 code blocks, 1 of them"));
  EXPECT_THAT(ErrorOf(kernel + kernel), HasSubstr("2 code blocks, 2 of them"));
  EXPECT_THAT(ErrorOf(snippet + snippet), HasSubstr("2 code blocks, 0 of them"));
  EXPECT_THAT(ErrorOf(snippet + Fenced("// PYBIND11_MODULE\n")), HasSubstr("0 of them"));
  // Blocks in other languages are ignored.
  EXPECT_EQ(ReadReply(kernel + Fenced("nvcc k.cu\n", "bash"))->code, kReplied);
  EXPECT_THAT(ErrorOf(Fenced("import torch\n", "python")), HasSubstr("neither a code block nor"));
}

TEST(ReadReply, TakesPythonPrograms) {
  const std::string program =
      "import torch\nsource = \"\"\"\n```\n__global__ void k() {}  // it's\n\"\"\"\n# ```\n"
      "class ModelNew(torch.nn.Module):\n  pass\n";
  const std::string kernel = Fenced(program, "python");
  EXPECT_EQ(ReadReply(kernel, Form::kPython)->code, program);
  EXPECT_EQ(ReadReply(Fenced("x = 1\n", "py") + "so:\n" + kernel, Form::kPython)->code, program);
  // Blocks in other languages are ignored: also CUDA, which belongs into a string.
  EXPECT_EQ(ReadReply(Fenced("int a;\n") + kernel, Form::kPython)->code, program);
  const auto error = [](const std::string& text) -> std::string {
    const auto reply = ReadReply(text, Form::kPython);
    return reply ? "no error" : reply.error().message;
  };
  EXPECT_THAT(error(kernel + kernel), HasSubstr("2 code blocks, 2 of them with class ModelNew"));
  EXPECT_THAT(error(Fenced("# class ModelNew\n", "python") + Fenced("y = 1\n", "python")),
              HasSubstr("0 of them"));
  EXPECT_THAT(error(Fenced("int a;\n")), HasSubstr("neither a code block nor"));
  EXPECT_THAT(error("```python\nx = 1\n"), HasSubstr("has no closing fence"));
  EXPECT_TRUE(ReadReply(RewriteFormat(Form::kPython), Form::kPython)->code);
}

TEST(ReadReply, TakesEdits) {
  const auto reply = ReadReply(
      "NAME: n\nTHOUGHT: t\n```cuda\n<<<<<<< SEARCH\n  a\n\n  b\n=======\n  c\n>>>>>>> REPLACE\n"
      "```\n\n<<<<<<< SEARCH\nd\n=======\n>>>>>>> REPLACE  \n");
  ASSERT_TRUE(reply) << reply.error().ToString();
  EXPECT_EQ(reply->thought, "t");
  EXPECT_FALSE(reply->code);
  ASSERT_THAT(reply->edits, SizeIs(2));
  EXPECT_EQ(reply->edits[0].search, "  a\n\n  b");
  EXPECT_EQ(reply->edits[0].replace, "  c");
  EXPECT_EQ(reply->edits[1].search, "d");
  EXPECT_EQ(reply->edits[1].replace, "");
}

TEST(ReadReply, RejectsAmbiguousEdits) {
  EXPECT_THAT(ErrorOf("<<<<<<< SEARCH\na\n=======\nb\n=======\nc\n>>>>>>> REPLACE\n"),
              HasSubstr("line 5: \"=======\" is not allowed there"));
  EXPECT_THAT(ErrorOf("<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n"), HasSubstr("line 3"));
  EXPECT_THAT(ErrorOf("<<<<<<< SEARCH\na\n<<<<<<< SEARCH\n"), HasSubstr("line 3"));
  EXPECT_THAT(ErrorOf("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n" + Fenced(kReplied)),
              HasSubstr("both edits and a code block"));
}

TEST(ReadReply, RecognisesThatAModelIsDone) {
  EXPECT_TRUE(ReadReply("I am done")->done);
  EXPECT_TRUE(ReadReply("THOUGHT: it is right.\n**I am done.**")->done);
  const auto both = ReadReply(Fenced(kReplied) + "I am done.");
  EXPECT_TRUE(both->done);
  EXPECT_EQ(both->code, kReplied);
  EXPECT_FALSE(ReadReply("I am done with tiling, now loads.\n" + Fenced(kReplied))->done);
  EXPECT_EQ(ErrorOf("I am nearly done"), "the answer has neither a code block nor edits");
}

TEST(ReadReply, LimitsSizes) {
  EXPECT_EQ(ErrorOf(""), "the answer is empty");
  EXPECT_EQ(ErrorOf(std::string("a\0b", 3)), "the answer contains a NUL character");
  EXPECT_THAT(ErrorOf(std::string(kMaxReplyBytes + 1, 'a')), HasSubstr("more than 16777216"));
  std::string many;
  for (int i = 0; i < 40; ++i) many += Fenced("int a;\n");
  EXPECT_THAT(ErrorOf(many), HasSubstr("more than 32 code blocks"));
  many.clear();
  for (int i = 0; i < 300; ++i) many += "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n";
  EXPECT_THAT(ErrorOf(many), HasSubstr("more than 256 edits"));
  const auto reply = ReadReply("NAME: " + std::string(119, 'n') + "\u00e9\n" + Fenced(kReplied));
  EXPECT_EQ(reply->name, std::string(119, 'n'));  // not half of the last character
}

TEST(Formats, CanBeRead) {
  const auto rewrite = ReadReply(RewriteFormat());
  ASSERT_TRUE(rewrite) << rewrite.error().ToString();
  EXPECT_TRUE(rewrite->code);
  const auto edits = ReadReply(EditFormat());
  ASSERT_TRUE(edits) << edits.error().ToString();
  EXPECT_THAT(edits->edits, SizeIs(1));
}

}  // namespace
}  // namespace cupel::evolve
