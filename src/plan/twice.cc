// SPDX-License-Identifier: Apache-2.0
#include "plan/twice.h"

#include <vector>

namespace cupel::plan {

Plan TwiceCalled(const Plan& plan) {
  Plan twice = plan;
  const int begin = plan.prepared, count = static_cast<int>(plan.nodes.size()) - begin;
  std::vector<bool> is_awaited(plan.nodes.size(), false);
  for (const Node& node : plan.nodes) {
    for (const int other : node.after) is_awaited[static_cast<size_t>(other)] = true;
  }
  std::vector<int> last;  // the first call has ended when these nodes have
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    if (!is_awaited[i]) last.push_back(static_cast<int>(i));
  }
  for (int i = begin; i < begin + count; ++i) {
    Node node = plan.nodes[static_cast<size_t>(i)];
    std::vector<int> after;
    for (const int other : node.after) {
      if (other >= begin) after.push_back(other + count);
    }
    node.after = after.empty() ? last : after;
    twice.nodes.push_back(std::move(node));
  }
  return twice;
}

}  // namespace cupel::plan
