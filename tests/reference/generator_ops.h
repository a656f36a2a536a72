// The instructions in random programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "exact.h"

namespace cupel::reference {

/// Classes of registers. Floats become integers only by conversion, never as bits, so that results
/// do not depend on the payload of a NaN, which PTX leaves undefined.
///   h r d: integers of 16, 32, 64 bits; f e: f32, f64; x y: f16, f16x2; z w: bf16, bf16x2; p
struct RegisterClass {
  char letter;
  int bits;
  int count;
  const Format* format;
};
const std::vector<RegisterClass>& RegisterClasses();
const RegisterClass& ClassOf(char letter);

/// For example "fma.rn.f32" with classes "ffff": the result's class, then the operands'. `divides`:
/// the last operand must not be zero.
struct Template {
  std::string mnemonic;
  std::string classes;
  std::string suffix;  // further operands, as text
  bool divides = false;
};
const std::vector<Template>& Templates();

}  // namespace cupel::reference
