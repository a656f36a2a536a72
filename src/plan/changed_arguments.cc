// SPDX-License-Identifier: Apache-2.0
#include "plan/changed_arguments.h"

#include <algorithm>
#include <utility>

namespace cupel::plan {

void ReturnArgument(Plan& plan, int argument, uint64_t bytes, View view) {
  auto found = std::ranges::find_if(plan.buffers, [&](const Buffer& buffer) {
    return buffer.kind == BufferKind::kArgument && buffer.argument == argument;
  });
  if (found == plan.buffers.end()) {  // the call does not use it
    found =
        plan.buffers.insert(plan.buffers.end(), {BufferKind::kArgument, bytes, argument, "", 0});
  }
  found->changes = true;
  view.address.buffer = static_cast<int>(found - plan.buffers.begin());
  plan.outputs.push_back(std::move(view));
}

}  // namespace cupel::plan
