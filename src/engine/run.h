// The result of executing a plan: outputs, findings, counters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "records/counters.h"
#include "records/established.h"
#include "records/finding.h"
#include "task/tensor.h"

namespace cupel::engine {

/// Why the shadow of an element is not conclusive.
enum ShadowState : uint8_t {
  kShadowReset = 1,   // an earlier step replaced the shadow by the value
  kShadowBranch = 2,  // an earlier decision depended on rounding
  kShadowSmall = 4,   // an earlier step rounded to a float of 8 bits
};

/// Elements [begin, end) in row-major order.
struct ElementRange {
  int64_t begin = 0, end = 0;
};

/// A contiguous output tensor that owns its bytes.
struct OutputTensor {
  bool is_none = false;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
  /// Shadow runs only, by element: the result of exact arithmetic, and why it is not conclusive
  /// (bits of ShadowState; 0: established).
  std::vector<double> shadow;
  /// Runs in a field: the result (PackElement) instead of `shadow`.
  std::vector<uint64_t> elements;
  std::vector<uint8_t> shadow_state;
  std::vector<records::ShadowCause> shadow_causes;  // of states other than 0, most frequent first
  /// Only some blocks of the launch that computes it ran: `bytes` contains only the elements that
  /// they wrote. `written` lists these as sorted ranges, in the order of `bytes`.
  bool is_sampled = false;
  std::vector<ElementRange> written;
  task::Tensor View() const;
};

/// A comparison of floats that are not constants, also of a minimum or a maximum.
struct Decision {
  std::string where;                                  // "setp.lt.f32 at kernel.cu:12"
  bool less = false, equal = false, greater = false;  // the first number, in some thread
  bool unordered = false;                             // a NaN
};

struct Run {
  /// False if execution stopped early; then findings say why, and outputs are empty.
  bool completed = false;
  /// Set if the program uses something that this engine does not implement ("mbarrier.init at
  /// kernel.cu:31").
  std::string unsupported;
  std::vector<OutputTensor> outputs;
  std::vector<records::Finding> findings;
  std::vector<std::string> printed;  // by the kernels' printf, one string per call
  records::Counters counters;
  /// A kernel used atomics or waits for other blocks, so the order of execution may matter.
  bool order_matters = false;
  /// Shadow runs: instructions whose results shadows do not follow.
  std::vector<std::string> not_followed;
  /// Runs in a field: the comparisons of floats, and what they found.
  std::vector<Decision> decisions;
  /// With RunOptions::lists_barriers: the places of the launched kernels' barriers
  /// ("kernel.cu:41").
  std::vector<std::string> barriers;
  bool met_muted_barrier = false;  // RunOptions::muted_barrier
  /// Blocks emulated, and blocks of all grids; they differ only with RunOptions::max_blocks.
  uint64_t emulated_blocks = 0, all_blocks = 0;
  /// Summed over all launches, extrapolated to blocks that were not emulated.
  uint64_t warp_instructions = 0;
  double seconds = 0;  // wall time of the execution
};

}  // namespace cupel::engine
