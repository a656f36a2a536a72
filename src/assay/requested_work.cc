// Tested by tests/e2e/test_optimize.py.
// SPDX-License-Identifier: Apache-2.0
#include "assay/requested_work.h"

#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "assay/loaded_images.h"
#include "assay/open_recorder.h"
#include "base/hash.h"
#include "base/json.h"
#include "plan/codec.h"
#include "ptx/parser.h"

namespace cupel::assay {
namespace {

constexpr const char* kEntry = "kernel";

/// Replaces the name of a kernel, and names that begin with it and "_" (its parameters).
std::string WithoutName(std::string_view text, std::string_view kernel) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
  };
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(kernel); at != std::string_view::npos;
       at = text.find(kernel, at + 1)) {
    const size_t end = at + kernel.size();
    const bool begins = at == 0 || !is_part(text[at - 1]);
    const bool ends = end == text.size() || !is_part(text[end]) || text[end] == '_';
    if (at < done || !begins || !ends) continue;
    out.append(text.substr(done, at - done)).append(kEntry);
    done = end;
  }
  return out.append(text.substr(done));
}

/// The code of one kernel with the functions and variables that it may use. nullopt if the PTX
/// cannot be read.
std::optional<std::string> CodeOf(const build::Image& image, const std::string& kernel) {
  auto module = ptx::Parse(image.ptx);
  if (!module) return std::nullopt;
  std::erase_if(module->functions, [&](const ptx::Function& function) {
    return function.is_entry && function.name != kernel;
  });
  for (ptx::Function& function : module->functions) {
    function.variables_before = 0;
    for (ptx::Instr& instruction : function.body) instruction.location = {};
    if (function.is_entry) function.name = kEntry;
  }
  module->files.clear();
  module->inlined_sites.clear();
  // Parameters are named after the kernel, and the kernel after its constants.
  return WithoutName(ptx::Print(*module), kernel);
}

/// The plan, with each kernel's name replaced by a hash of its code.
std::optional<std::string> TextOf(plan::Plan plan, const build::Images& images) {
  for (plan::Node& node : plan.nodes) {
    auto* launch = std::get_if<plan::Launch>(&node.work);
    if (launch == nullptr) continue;
    const auto image = static_cast<size_t>(launch->image);
    if (launch->image < 0 || image >= images.size()) return std::nullopt;
    const auto code = CodeOf(*images[image], launch->kernel);
    if (!code) return std::nullopt;
    launch->kernel = Sha256Hex(*code);
  }
  return DumpJson(plan::ToJson(plan));
}

}  // namespace

Result<std::optional<std::string>> RequestedWork(const Candidate& candidate,
                                                 const Question& question, const Parts& parts,
                                                 uint64_t seed) {
  if (candidate.images() == nullptr) return std::optional<std::string>();
  TRY_ASSIGN(const auto settings, SomeChosen(question));
  const auto recorder = OpenRecorder(candidate, question, parts, seed);
  if (!recorder) {
    if (IsUnsupportedCode(recorder.error())) return std::optional<std::string>();
    return tl::unexpected(recorder.error());
  }
  std::string all;
  for (const task::Setting* setting : settings) {
    TRY_ASSIGN(const auto outcomes,
               parts.oracle->Cases(*question.task, question.direction, *setting, 1, seed));
    const auto* drawn = outcomes.empty() ? nullptr : std::get_if<task::Case>(&outcomes.front());
    if (drawn == nullptr) continue;
    TRY_ASSIGN(auto outcome, (*recorder)->Survey(std::string(task::Name(question.direction)),
                                                 drawn->args, *setting));
    auto* recording = std::get_if<record::Recording>(&outcome);
    if (recording == nullptr) return std::optional<std::string>();
    const auto text = TextOf(std::move(recording->plan), recording->images);
    if (!text) return std::optional<std::string>();
    all += *text + '\n';
  }
  if (all.empty()) return std::optional<std::string>();
  return std::optional<std::string>(Sha256Hex(all));
}

Result<std::optional<std::string>> Assay::RequestedWork(const Candidate& candidate,
                                                        const Question& question,
                                                        uint64_t seed) const {
  return assay::RequestedWork(candidate, question, parts_, seed);
}

}  // namespace cupel::assay
