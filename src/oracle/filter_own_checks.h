// Parts of filter_checks.cc: helpers to build a check, and all checks except robust-kbench's
// numeric ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oracle/filter_checks.h"

namespace cupel::oracle {

using Outputs = std::vector<OutputMeasures>;

QualityCheck Check(const char* name);
void Flag(QualityCheck& check, const std::string& reason);
/// Appends to `check.measured`, up to the width of a table. The JSON has all measurements.
void Measured(QualityCheck& check, const std::string& text);
/// "output 1: " if there is more than one output, otherwise "".
std::string Of(const Outputs& outputs, const OutputMeasures& output);

QualityCheck OpinionCheck(const char* name, const std::optional<ModelOpinion>& opinion,
                          bool ModelOpinion::* member);
QualityCheck ConstantCheck(const Outputs& outputs);
QualityCheck CopyCheck(const Outputs& outputs);
QualityCheck UnusedCheck(const TaskMeasures& measures);
QualityCheck RedundancyCheck(const TaskMeasures& measures);

}  // namespace cupel::oracle
