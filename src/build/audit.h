// The audit of a built candidate: what its shared object would need of the system, and what in it
// no compiler makes of honest code. It refuses early and names the cause; it protects nothing by
// itself, the sandbox does (docs/trust.md). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "build/elf.h"

namespace cupel::build {

struct Audit {
  /// Why the candidate is refused: "host_privilege" (processes, threads, files, sockets, system
  /// calls of its own), "impure" (clocks, entropy, where it runs) or "unsafe_object".
  struct Objection {
    std::string code, message, where;
  };
  std::optional<Objection> objection;
  std::vector<std::string> notes;  // legal, worth knowing
};

Audit AuditObject(const SharedObject& object);

}  // namespace cupel::build
