// SPDX-License-Identifier: Apache-2.0
#include "os/sandbox.h"

#include "os/sandbox_child.h"
#include "os/sandbox_plan.h"

namespace cupel::os {
Status PlanSandbox(const Confinement&, SandboxPlan&, SandboxReport&) {
  return Fail(ErrorCode::kUnsupported, "confinement is not there yet");
}
std::vector<uint64_t> NamespaceChoices(const SandboxPlan&) { return {0}; }
void NoteNamespaces(const SandboxPlan&, uint64_t, SandboxReport&) {}
void WriteIdMaps(const SandboxPlan&, pid_t, SandboxReport&) {}
void NoteReport(const SandboxPlan&, const ChildReport&, SandboxReport&) {}
void EnterView(ChildPlan&) {}
void RestrictIdentity(ChildPlan&) {}
void RestrictCalls(ChildPlan&) {}
}  // namespace cupel::os

namespace cupel::os {
Status EnterRecorderSandbox() { return {}; }
std::string SyscallName(int number) { return std::to_string(number); }
SandboxReport ProbeSandbox() { return {}; }
}  // namespace cupel::os
