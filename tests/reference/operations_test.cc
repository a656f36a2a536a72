// Compares the fast interpreter with the reference for every form of an instruction, on edge values
// and random values, with each set of vector instructions that the processor supports.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "blocks.h"
#include "emu/ops/handlers.h"
#include "fast.h"
#include "forms.h"
#include "ptx/parser.h"

namespace cupel::reference {
namespace {

constexpr size_t kThreads = 4 * kFormBlock;
constexpr size_t kReported = 40;

/// Collects differences; keeps the first few.
class Report {
 public:
  void Add(const std::string& what) {
    if (texts_.size() < kReported) texts_.push_back(what);
    ++count_;
  }
  void Check() const {
    std::string text;
    for (const std::string& line : texts_) text += line + "\n";
    EXPECT_EQ(count_, 0u) << text;
  }

 private:
  std::vector<std::string> texts_;
  size_t count_ = 0;
};

void Compare(const std::vector<Form>& forms) {
  const auto module = ptx::Parse(FormModule(forms, 0));
  ASSERT_TRUE(module) << module.error().message;
  std::vector<std::unique_ptr<Fast>> levels;
  for (int level = 0; level <= emu::VectorLevel(); ++level) {
    levels.push_back(std::make_unique<Fast>(*module, level));
  }
  Report report;
  for (size_t f = 0; f < forms.size(); ++f) {
    const Form& form = forms[f];
    const std::string kernel = "f" + std::to_string(f);
    const std::vector<std::byte> inputs = FormInputs(form, kThreads, f + 1);
    std::vector<std::vector<std::byte>> expected{inputs,
                                                 std::vector<std::byte>(kThreads * kResultBytes)};
    std::string error;
    if (!form.operation) {
      error = RunReference(*module, kernel, kThreads / kFormBlock, kFormBlock, &expected);
    }
    if (!error.empty()) report.Add(form.name + ": the reference: " + error);
    for (size_t level = 0; level < levels.size() && error.empty(); ++level) {
      std::vector<std::byte> in = inputs, out(kThreads * kResultBytes);
      const std::array<std::vector<std::byte>*, 2> buffers{&in, &out};
      const std::string wrong =
          levels[level]->Run(kernel, kThreads / kFormBlock, kFormBlock, buffers);
      if (!wrong.empty()) {
        report.Add(form.name + ": " + wrong);
        break;
      }
      std::string text;
      for (size_t t = 0; t < kThreads && text.empty(); ++t) {
        text = CheckForm(form, inputs, expected[1], out, t);
      }
      if (text.empty()) continue;
      report.Add("vector level " + std::to_string(level) + ": " + text);
      break;
    }
  }
  report.Check();
}

TEST(Operations, ReferenceSupportsEveryInstructionOfTheTable) {
  std::vector<std::string> unknown;
  const std::vector<std::string> keys = TableKeys();
  const std::vector<Form> forms = TableForms(keys, &unknown);
  EXPECT_GT(forms.size(), 500u);
  std::string text;
  for (const std::string& key : unknown) text += key + " ";
  EXPECT_TRUE(unknown.empty())
      << "Add these to tests/reference/operation_*.cc, or list a form in forms_listed.cc and its "
         "first word in forms.cc: "
      << text;
}

TEST(Operations, TableAgrees) {
  std::vector<std::string> unknown;
  const std::vector<std::string> keys = TableKeys();
  Compare(TableForms(keys, &unknown));
}

TEST(Operations, ListedFormsAgree) { Compare(ListedForms()); }

}  // namespace
}  // namespace cupel::reference
