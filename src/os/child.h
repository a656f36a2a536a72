// The child's side of a spawn, between clone and exec. The parent prepares everything that the
// child uses, because a child of a multi-threaded process may make only async-signal-safe calls: no
// allocation, no locks, system calls only.
//
// A spawn creates two processes. `init` is the direct child: it sets up namespaces, starts the
// target and reaps every orphan. It exits with all its descendants as soon as the target or cupel
// itself ends (then the lifeline pipe closes, even after kill -9). `target` becomes the program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace cupel::os {

struct SandboxPlan;

/// What the child reports to the parent before exec. Each report is one atomic write.
struct ChildReport {
  enum Step : int32_t {
    kStarted,   // the target is about to exec
    kMounts,    // error: index of the operation in `detail`
    kIdentity,  // dropping root
    kLandlock,  // detail: ABI in use
    kSeccomp,
    kLimits,       // detail: the resource
    kTooWeak,      // fatal: the sandbox lacks a required part
    kDescriptors,  // fatal when error
    kDirectory,    // fatal when error
    kFork,         // fatal
    kExec,         // fatal
  };
  int32_t step = 0;
  int32_t error = 0;  // errno, 0 for success
  int32_t detail = 0;
};

struct ChildPlan {
  char* const* argv = nullptr;
  char* const* env = nullptr;
  const char* directory = nullptr;  // null keeps the parent's
  int standard[3] = {-1, -1, -1};   // what becomes 0, 1, 2
  std::vector<int> extra;           // what becomes 3, 4, …
  int lifeline = -1;                // read end; closes when the parent ends
  int status = -1;                  // write end; gets the target's wait status
  int report = -1;                  // write end; gets ChildReports, closes at exec
  int go = -1;                      // read end; gets a byte when the ID maps are written
  struct Range {
    unsigned first, last;
  };
  std::vector<Range> close;        // descriptors that init must not keep
  SandboxPlan* sandbox = nullptr;  // null: a trusted child
  bool user_namespace = false;
  bool mount_namespace = false;
  bool pid_namespace = false;  // init is process 1 of its own namespace
  int grace_ms = 0;            // from SIGTERM to SIGKILL, when the parent ends; 0: no SIGTERM
  bool root_map = false;       // root and nobody are mapped; the target becomes nobody
};

/// Runs in the direct child. Never returns.
[[noreturn]] void RunInit(ChildPlan& plan);

/// Writes one report; for the sandbox's steps.
void Report(const ChildPlan& plan, ChildReport::Step step, int error, int detail = 0);

}  // namespace cupel::os
