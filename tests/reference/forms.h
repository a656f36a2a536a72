// Every form of an instruction that the fast interpreter knows, each as a small kernel: it loads
// operands, executes the instruction, stores what it gave. Forms with one result come from the keys
// of the interpreter's table, so that an instruction added there is asked for here; the others
// (memory, warps, carries, vectors, flow) are listed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "operation.h"

namespace cupel::reference {

/// The kernel's parameters are two pointers: 32 bytes of operands and 16 of results a thread.
inline constexpr size_t kOperandBytes = 32, kResultBytes = 16;
inline constexpr uint32_t kFormBlock = 256;

struct Form {
  std::string name;                      // the instruction, and what else tells it from others
  std::string body;                      // PTX; operands are %a0 …, results %o0 …
  std::vector<int> inputs;               // bits of the operands, 1 for predicates
  std::vector<int> outputs;              // bits of the results
  size_t body_stores = 0;                // how many of the last results the body stores itself
  std::optional<Operation> operation;    // for the forms of the table
  const Format* float_result = nullptr;  // any NaN is as good as another, in all results
};

/// The forms of handler keys; what is no instruction, or in ListedForms, gives nothing. Keys for
/// which the reference has no operation are added to `unknown`.
std::vector<Form> TableForms(std::span<const std::string> keys, std::vector<std::string>* unknown);
std::vector<Form> ListedForms();
/// Both, with the keys of the fast interpreter.
std::vector<Form> AllForms();

/// A module with kernels f<first>, f<first + 1> … for the forms.
std::string FormModule(std::span<const Form> forms, size_t first);
/// The operands' bytes for so many threads: edge values with each other, then random ones.
std::vector<std::byte> FormInputs(const Form& form, size_t threads, uint64_t seed);
/// What the thread's operand i is.
Operands FormOperands(const Form& form, std::span<const std::byte> inputs, size_t thread);
/// Whether a thread's results are right; `expected` may be null when the form has an operation.
/// Says what is wrong, or nothing.
std::string CheckForm(const Form& form, std::span<const std::byte> inputs,
                      std::span<const std::byte> expected, std::span<const std::byte> got,
                      size_t thread);

}  // namespace cupel::reference
