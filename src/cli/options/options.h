// The command line as data: the options of the use cases (app/options.h), and how to show the
// result. Only the files of this folder include CLI11, which is a heavy header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "app/options.h"

namespace cupel::cli {

/// How a command shows its result.
struct Show {
  std::string json;    // file to write; empty: none
  bool quiet = false;  // print only the result
};

/// A command: the options of its use case, and how to show the result.
template <typename Options>
struct CommandOf : Options {
  Show show;
};

using BuildCommand = CommandOf<app::BuildOptions>;
using ExtractCommand = CommandOf<app::ExtractOptions>;
using VerifyCommand = CommandOf<app::VerifyOptions>;
using ProfileCommand = CommandOf<app::ProfileOptions>;
using ProveCommand = CommandOf<app::ProveOptions>;
using BenchCommand = CommandOf<app::BenchOptions>;
using StreamCommand = CommandOf<app::StreamOptions>;
using ExportCommand = CommandOf<app::ExportOptions>;
using ConfirmCommand = CommandOf<app::ConfirmOptions>;
using OptimizeCommand = CommandOf<app::OptimizeOptions>;
using TranslateCommand = CommandOf<app::TranslateOptions>;
using ReviewCommand = CommandOf<app::ReviewOptions>;
using CalibrateCommand = CommandOf<app::CalibrateOptions>;
using FilterCommand = CommandOf<app::FilterOptions>;
using ImportCommand = CommandOf<app::ImportOptions>;
using DoctorCommand = CommandOf<app::DoctorOptions>;
using SelftestCommand = CommandOf<app::SelftestOptions>;
using SuiteRunCommand = CommandOf<app::SuiteRunOptions>;
using SuiteReportCommand = CommandOf<app::SuiteReportOptions>;
using SuiteMergeCommand = CommandOf<app::SuiteMergeOptions>;
using SuiteCompareCommand = CommandOf<app::SuiteCompareOptions>;
using WorkerCommand = app::WorkerOptions;

struct CheckCommand : CommandOf<app::CheckOptions> {
  std::filesystem::path plan;  // file to write; empty: none
};

struct TaskCommand : CommandOf<app::ControlsOptions> {
  std::string action;  // list, show, controls
};

struct ReportCommand {
  Show show;
  std::vector<std::filesystem::path> runs;  // folders; only one without `compare`
  bool compare = false;
  std::filesystem::path html;  // file; empty: report.html in the run's folder, none for `compare`
  std::filesystem::path svg;   // file of the picture; only with `compare`; empty: none
};

struct McpCommand {
  app::Common common;                 // device, model and python of every call
  app::Compile compile;               // of every call
  app::ModelOptions models;           // reviewers; without any, the tool `review` fails
  std::filesystem::path calibration;  // of the reviewers; empty: not calibrated
  int jobs = 0;                       // judging calls at a time; 0: one for each core
  int seconds = 1800;                 // time limit of a call
};

using Command =
    std::variant<BuildCommand, CheckCommand, VerifyCommand, BenchCommand, StreamCommand,
                 ProfileCommand, ProveCommand, OptimizeCommand, TranslateCommand, ReviewCommand,
                 CalibrateCommand, ExportCommand, ConfirmCommand, TaskCommand, FilterCommand,
                 ImportCommand, ExtractCommand, ReportCommand, DoctorCommand, SelftestCommand,
                 SuiteRunCommand, SuiteReportCommand, SuiteMergeCommand, SuiteCompareCommand,
                 WorkerCommand, McpCommand>;

/// Returns a command, or an exit status if it printed help or a message.
std::variant<Command, int> ParseCommandLine(int argc, char** argv);

}  // namespace cupel::cli
