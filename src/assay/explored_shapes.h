// The arguments of calls at explored sizes, from a few questions to the oracle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "oracle/oracle.h"
#include "task/explored.h"
#include "task/task.h"

namespace cupel::assay {

/// For each size the arguments there; nullopt if the task's reference does not accept it. Of sizes
/// that vary in one keyword only, PyTorch makes a few calls, and the others follow
/// (task/shape_family.h). Error: as Oracle::Shapes.
Result<std::vector<std::optional<task::CallShape>>> ShapesAt(
    oracle::Oracle& oracle, const task::Task& task, task::Direction direction,
    const std::vector<task::ExploredSize>& sizes);

}  // namespace cupel::assay
