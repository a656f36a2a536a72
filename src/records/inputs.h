// The inputs on which a setting was judged, and the results on inputs that the task itself does not
// draw (docs/judging.md, "Other inputs").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cupel::records {

/// A case on which a setting was judged: enough to draw it again.
struct UsedCase {
  std::string kind = "usual";
  uint64_t seed = 0;
  std::string at;  // sizes that differ from the setting's own, in words; else empty
};

/// Something that the kernel cannot do and the task does not require.
struct Limit {
  std::string kind;     // of the inputs
  std::string code;     // like Reason::code
  std::string message;  // "refuses non-contiguous tensors"
  std::string detail;   // what was observed
};

struct NotTried {
  std::string kind, why;
};

/// Results for one setting.
struct OtherInputs {
  std::string at;                  // like UsedCase::at
  std::vector<std::string> tried;  // kinds, with any result
  std::vector<NotTried> not_tried;
  std::vector<Limit> limits;
};

}  // namespace cupel::records
