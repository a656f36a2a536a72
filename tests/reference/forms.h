// Every form of an instruction that the fast interpreter supports, each as a small kernel. The
// kernel loads operands, executes the instruction and stores the result. Forms with one result come
// from the keys of the interpreter's table, so the tests cover an instruction that is added there.
// The other forms (memory, warps, carries, vectors, flow) are listed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "operation.h"

namespace cupel::reference {

/// The kernel's parameters are two pointers: 32 bytes of operands and 16 of results per thread.
inline constexpr size_t kOperandBytes = 32, kResultBytes = 16;
inline constexpr uint32_t kFormBlock = 256;

struct Form {
  std::string name;                      // the instruction, and what distinguishes it from others
  std::string body;                      // PTX; operands are %a0 …, results %o0 …
  std::vector<int> inputs;               // bits of the operands, 1 for predicates
  std::vector<int> outputs;              // bits of the results
  size_t body_stores = 0;                // how many of the last results the body stores itself
  std::optional<Operation> operation;    // for the forms of the table
  const Format* float_result = nullptr;  // of all results; all NaNs are equal
};

/// Returns the forms of handler keys. Skips keys that are not instructions, and keys of forms in
/// ListedForms. Adds keys for which the reference has no operation to `unknown`.
std::vector<Form> TableForms(std::span<const std::string> keys, std::vector<std::string>* unknown);
std::vector<Form> ListedForms();
/// The forms of both functions, with the keys of the fast interpreter.
std::vector<Form> AllForms();

/// A module with kernels f<first>, f<first + 1> … for the forms.
std::string FormModule(std::span<const Form> forms, size_t first);
/// The operands' bytes for all threads: all combinations of edge values, then random values.
std::vector<std::byte> FormInputs(const Form& form, size_t threads, uint64_t seed);
/// The operands of one thread.
Operands FormOperands(const Form& form, std::span<const std::byte> inputs, size_t thread);
/// Checks a thread's results. `expected` may be null if the form has an operation. Returns an error
/// message, or an empty string if the results are correct.
std::string CheckForm(const Form& form, std::span<const std::byte> inputs,
                      std::span<const std::byte> expected, std::span<const std::byte> got,
                      size_t thread);

}  // namespace cupel::reference
