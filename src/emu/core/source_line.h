// The source line of an instruction, for findings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ptx/ir.h"

namespace cupel::emu {

/// A source line, for example kernel.cu:31. LineOf prefers the candidate's own lines over lines of
/// toolkit headers.
struct SourceLine {
  std::string file;
  int line = 0;
};
SourceLine LineOf(const ptx::Module& module, const ptx::Location& location);
/// "kernel.cu:31", without folders. Empty without a line.
std::string PlaceText(const std::string& file, int line);

}  // namespace cupel::emu
