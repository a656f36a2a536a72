// The audit of a built candidate: what its shared object needs from the system, and properties that
// compilers do not produce from honest code. It rejects early and names the cause. It is not a
// protection; the sandbox is (docs/trust.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "build/elf.h"

namespace cupel::build {

struct Audit {
  /// Why the candidate is rejected: "host_privilege" (processes, threads, files, sockets, system
  /// calls), "impure" (clocks, entropy, properties of the process or machine) or "unsafe_object".
  struct Objection {
    std::string code, message, where;
  };
  std::optional<Objection> objection;
  std::vector<std::string> notes;  // allowed, but worth knowing
};

/// `files`: how many were compiled. Each has a function that runs when the object is loaded.
Audit AuditObject(const SharedObject& object, size_t files = 1);

}  // namespace cupel::build
