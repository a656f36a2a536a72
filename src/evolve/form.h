// The form of a run's candidates: CUDA files, or Python programs that bring their kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace cupel::evolve {

enum class Form { kCuda, kPython };

/// "cuda", "python": in a run's configuration, and of code blocks in prompts and answers.
constexpr const char* Name(Form form) { return form == Form::kPython ? "python" : "cuda"; }
constexpr std::optional<Form> FormNamed(std::string_view name) {
  if (name == "cuda") return Form::kCuda;
  if (name == "python") return Form::kPython;
  return std::nullopt;
}

/// ".cu", ".py": of a candidate's file, which decides how it is judged.
constexpr const char* SuffixOf(Form form) { return form == Form::kPython ? ".py" : ".cu"; }

}  // namespace cupel::evolve
