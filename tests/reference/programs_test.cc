// Compares the memory of random programs in the fast interpreter and in the reference, with each
// set of vector instructions, and once more after printing and parsing the program.
//
// CUPEL_PROGRAM_SEED=n runs only program n and prints it. CUPEL_PROGRAM_COUNT=n runs the first n
// programs.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "emu/ops/handlers.h"
#include "fast.h"
#include "generator.h"
#include "machine.h"
#include "ptx/parser.h"

namespace cupel::reference {
namespace {

uint64_t Number(const char* variable, uint64_t default_value) {
  const char* text = std::getenv(variable);
  return text == nullptr ? default_value : std::strtoull(text, nullptr, 10);
}

struct Results {
  std::vector<std::byte> out, common;
};

std::string RunReference(const ptx::Module& module, const Program& program,
                         const std::vector<std::byte>& in, Results* results) {
  Machine machine(module);
  const uint64_t addresses[] = {machine.Allocate(in), machine.Allocate(results->out),
                                machine.Allocate(results->common)};
  Launch launch;
  launch.kernel = program.KernelName();
  launch.grid[0] = program.grid;
  launch.block[0] = program.block;
  launch.parameters.resize(sizeof addresses);
  std::memcpy(launch.parameters.data(), addresses, sizeof addresses);
  const std::string error = machine.Run(launch);
  results->out = machine.Contents(addresses[1]);
  results->common = machine.Contents(addresses[2]);
  return error;
}

/// Runs the program in every way. Returns the first error, or an empty string.
std::string Check(const Program& program) {
  const auto module = ptx::Parse(kModuleHead + program.Text());
  if (!module) return "parser: " + module.error().message;
  const std::vector<std::byte> in = ProgramInputs(program);
  const Results empty{std::vector<std::byte>(program.grid * program.block * kProgramOutput),
                      std::vector<std::byte>(kCommonBytes)};
  Results expected = empty;
  const std::string error = RunReference(*module, program, in, &expected);
  if (!error.empty()) return "reference: " + error;
  const auto again = ptx::Parse(ptx::Print(*module));
  if (!again) return "parser of printed text: " + again.error().message;
  for (int way = 0; way <= emu::VectorLevel() + 1; ++way) {
    const bool printed = way > emu::VectorLevel();
    const std::string name =
        printed ? "printed and parsed: " : fmt::format("vector level {}: ", way);
    Fast fast(printed ? *again : *module, way);
    Results got = empty;
    std::vector<std::byte> inputs = in;
    std::vector<std::byte>* const buffers[] = {&inputs, &got.out, &got.common};
    const std::string wrong =
        fast.Run(program.KernelName(), program.grid, program.block, buffers, printed);
    if (!wrong.empty()) return name + wrong;
    const std::string difference = CompareResults(program, expected.out, got.out);
    if (!difference.empty()) return name + difference;
    if (expected.common != got.common) return name + "the shared buffer differs";
    if (inputs != in) return name + "the operands changed";
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
