// Parts of filter_checks.cc: how a check is put together, and the checks that are not
// robust-kbench's numeric ones. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "oracle/filter_checks.h"

namespace cupel::oracle {

using Outputs = std::vector<OutputMeasures>;

QualityCheck Check(const char* name);
void Flag(QualityCheck& check, const std::string& reason);
/// Adds to what is measured, up to a table's width: the JSON has all.
void Measured(QualityCheck& check, const std::string& text);
/// "output 1: " where there are more than one.
std::string Of(const Outputs& outputs, const OutputMeasures& output);

QualityCheck OpinionCheck(const char* name, const std::optional<ModelOpinion>& opinion,
                          bool ModelOpinion::*member);
QualityCheck ConstantCheck(const Outputs& outputs);
QualityCheck CopyCheck(const Outputs& outputs);
QualityCheck UnusedCheck(const TaskMeasures& measures);
QualityCheck RedundancyCheck(const TaskMeasures& measures);

}  // namespace cupel::oracle
