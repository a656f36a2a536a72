// The child's side of a spawn, between clone and exec. Everything it uses is laid out beforehand by
// the parent, since a child of a multi-threaded process may make only async-signal-safe calls: no
// allocation, no locks, system calls only.
//
// Two processes are made. `init` is the direct child: it sets up namespaces, starts the target,
// reaps every orphan, and goes away with all its descendants as soon as the target ends or cupel
// itself does (the lifeline pipe closes, even after kill -9). `target` becomes the program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace cupel::os {

struct SandboxPlan;

/// What the child tells the parent before exec, one atomic write each.
struct ChildReport {
  enum Step : int32_t {
    kStarted,   // the target is about to exec
    kMounts,    // error: index of the operation in `detail`
    kIdentity,  // dropping root
    kLandlock,  // detail: ABI in use
    kSeccomp,
    kLimits,       // detail: the resource
    kTooWeak,      // fatal: the sandbox lacks what it must have
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
  int lifeline = -1;                // read end; closes when the parent goes
  int status = -1;                  // write end; gets the target's wait status
  int report = -1;                  // write end; gets ChildReports, closes at exec
  int go = -1;                      // read end; a byte comes when the ID maps are written
  struct Range {
    unsigned first, last;
  };
  std::vector<Range> close;        // descriptors that init must not keep
  SandboxPlan* sandbox = nullptr;  // null: a trusted child
  bool user_namespace = false;
  bool mount_namespace = false;
  bool pid_namespace = false;  // init is process 1 of its own namespace
  int grace_ms = 0;            // between SIGTERM and the end, when the parent goes; 0: no SIGTERM
  bool root_map = false;       // root and nobody are mapped; the target becomes nobody
};

/// Runs in the direct child. Never returns.
[[noreturn]] void RunInit(ChildPlan& plan);

/// Writes one report; for the sandbox's steps.
void Report(const ChildPlan& plan, ChildReport::Step step, int error, int detail = 0);

}  // namespace cupel::os
