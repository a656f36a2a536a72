// The interface of what records a candidate's calls: a Recorder for an extension, a trace::Tracer
// for a Python program. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "build/image.h"
#include "os/sandbox.h"
#include "plan/plan.h"
#include "task/task.h"
#include "task/tensor.h"

namespace cupel::record {

/// The candidate cannot be recorded, or its host code failed. This is data, not an Error.
struct Refusal {
  /// "host_crash", "host_timeout", "host_exception", "wrong_arguments", "no_function",
  /// "wrong_return", "reads_device_memory", "impure" (plan depends on earlier calls or addresses),
  /// "unordered_work", "freed_memory", "host_privilege" (threads, files, sockets …),
  /// "illegal_launch", "unsupported_operator", "unsupported_api"
  std::string code;
  std::string message;  // one sentence with the cause
  std::string where;    // the argument, API or kernel; may be empty
  bool unsupported = false;
};

/// A search of an autotuner, which would choose the fastest of the configurations.
struct Search {
  std::string kernel;
  std::vector<std::string> configurations;
  int chosen = -1;  // the one that was recorded; -1: none fits
};

struct Recording {
  plan::Plan plan;
  std::optional<plan::Plan> first;  // plan of the first call, if it differs
  double host_us = 0;               // median host time of one steady-state call
  int recordings = 0;               // number of calls that had to agree
  bool reads_values = false;        // it depends on values of arguments: other values, other plan
  build::Images images;             // that the plan's launches name by their index
  std::vector<std::string> notes;   // what was assumed about the candidate
  std::vector<Search> searches;     // of the candidate's autotuners, since it was loaded
};

using Outcome = std::variant<Recording, Refusal>;

/// Not thread-safe.
class CallRecorder {
 public:
  virtual ~CallRecorder() = default;

  /// Records `function` ("forward" or "backward") with arguments like these, which are a call at
  /// `setting`.
  virtual Result<Outcome> Record(const std::string& function, const std::vector<task::Value>& args,
                                 const task::Setting& setting) = 0;

  /// Like Record(), but calls the function only a few times, and Recheck() does not repeat it: to
  /// see at many sizes which work the function requests.
  virtual Result<Outcome> Survey(const std::string& function, const std::vector<task::Value>& args,
                                 const task::Setting& setting) = 0;

  /// Records all requests of Record() once more, and in new processes from the smallest arguments
  /// to the largest and back, and compares the plans. Refuses with "impure" if a plan changed, or
  /// with what is wrong in another order.
  virtual Result<std::variant<std::monostate, Refusal>> Recheck() = 0;

  /// Records the first request of Record() once more, as if PyTorch's current stream were another
  /// than the default one. Returns the refusal, or nothing if the function's work follows that
  /// stream, or if this cannot be seen.
  virtual Result<std::optional<Refusal>> RecordOnOtherStream() { return std::optional<Refusal>(); }

  /// The confinement of the candidate's host code.
  virtual const os::SandboxReport& sandbox() const = 0;
};

}  // namespace cupel::record
