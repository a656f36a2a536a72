// Compares the memory of random programs in the fast interpreter and in the reference, with each
// set of vector instructions, and once more after printing and parsing the program.
//
// CUPEL_PROGRAM_SEED=n runs only program n and prints it. CUPEL_PROGRAM_COUNT=n runs the first n
// programs.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "blocks.h"
#include "emu/ops/handlers.h"
#include "fast.h"
#include "generator.h"
#include "ptx/parser.h"

namespace cupel::reference {
namespace {

uint64_t Number(const char* variable, uint64_t default_value) {
  const char* text = std::getenv(variable);
  return text == nullptr ? default_value : std::strtoull(text, nullptr, 10);
}

/// Runs the program in every way. Returns the first error, or an empty string.
std::string Check(const Program& program) {
  const auto module = ptx::Parse(kModuleHead + program.Text());
  if (!module) return "parser: " + module.error().message;
  const std::vector<std::byte> in = ProgramInputs(program);
  const std::vector<std::vector<std::byte>> initial{
      in, std::vector<std::byte>(program.grid * program.block * kProgramOutput),
      std::vector<std::byte>(kCommonBytes)};
  std::vector<std::vector<std::byte>> expected = initial;
  const std::string error =
      RunReference(*module, program.KernelName(), program.grid, program.block, &expected);
  if (!error.empty()) return "reference: " + error;
  const auto again = ptx::Parse(ptx::Print(*module));
  if (!again) return "parser of printed text: " + again.error().message;
  for (int way = 0; way <= emu::VectorLevel() + 1; ++way) {
    const bool printed = way > emu::VectorLevel();
    const std::string name =
        printed ? "printed and parsed: " : fmt::format("vector level {}: ", way);
    Fast fast(printed ? *again : *module, way);
    std::vector<std::vector<std::byte>> got = initial;
    std::vector<std::byte>* const buffers[] = {&got[0], &got[1], &got[2]};
    const std::string wrong =
        fast.Run(program.KernelName(), program.grid, program.block, buffers, {}, printed);
    if (!wrong.empty()) return name + wrong;
    const std::string difference = CompareResults(program, expected[1], got[1]);
    if (!difference.empty()) return name + difference;
    if (expected[2] != got[2]) return name + "the shared buffer differs";
    if (got[0] != in) return name + "the operands changed";
  }
  return {};
}

TEST(Programs, Agree) {
  const uint64_t one = Number("CUPEL_PROGRAM_SEED", 0);
  const uint64_t first = one != 0 ? one : 1;
  const uint64_t last = one != 0 ? one : Number("CUPEL_PROGRAM_COUNT", 1200);
  int failures = 0;
  for (uint64_t seed = first; seed <= last && failures < 5; ++seed) {
    const Program program = GenerateProgram(seed);
    if (one != 0) fmt::print("{}{}\n", kModuleHead, program.Text());
    std::string wrong = Check(program);
    if (wrong.empty()) continue;
    ++failures;
    const Program small = Minimised(program, [](const Program& p) { return !Check(p).empty(); });
    ADD_FAILURE() << "program " << seed << ": " << wrong
                  << "\nrepeat with CUPEL_PROGRAM_SEED=" << seed
                  << "; the smallest part that fails (" << Check(small) << "):\n"
                  << small.Body();
  }
}

}  // namespace
}  // namespace cupel::reference
