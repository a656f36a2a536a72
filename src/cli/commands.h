// One function for each command. It returns the exit status, or an Error that main prints.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/result.h"
#include "cli/options/options.h"

namespace cupel::cli {

Result<int> Run(const BuildCommand& command);
Result<int> Run(const CheckCommand& command);
Result<int> Run(const VerifyCommand& command);
Result<int> Run(const BenchCommand& command);
Result<int> Run(const StreamCommand& command);
Result<int> Run(const ProfileCommand& command);
Result<int> Run(const ProveCommand& command);
Result<int> Run(const OptimizeCommand& command);
Result<int> Run(const TranslateCommand& command);
Result<int> Run(const ExportCommand& command);
Result<int> Run(const ConfirmCommand& command);
Result<int> Run(const TaskCommand& command);
Result<int> RunTaskControls(const TaskCommand& command);
Result<int> Run(const FilterCommand& command);
Result<int> Run(const ImportCommand& command);
Result<int> Run(const ExtractCommand& command);
Result<int> Run(const ReportCommand& command);
Result<int> Run(const DoctorCommand& command);
Result<int> Run(const SelftestCommand& command);
Result<int> Run(const SuiteRunCommand& command);
Result<int> Run(const SuiteReportCommand& command);
Result<int> Run(const SuiteMergeCommand& command);
Result<int> Run(const SuiteCompareCommand& command);
Result<int> Run(const WorkerCommand& command);
Result<int> Run(const ReviewCommand& command);
Result<int> Run(const CalibrateCommand& command);
Result<int> Run(const McpCommand& command);

}  // namespace cupel::cli
