// Judges a candidate: builds, records, executes and compares it, case by case and setting by
// setting. Uses the parts only through their interfaces, and leaves all decisions to judge/.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "base/events.h"
#include "base/result.h"
#include "build/build.h"
#include "engine/engine.h"
#include "judge/verdict.h"
#include "oracle/oracle.h"
#include "os/temp_dir.h"
#include "plan/plan.h"
#include "record/recorder.h"
#include "task/allowed_operators.h"
#include "task/task.h"
#include "trace/python_pool.h"
#include "trace/tracer.h"

namespace cupel::assay {

struct EmulatorQuestion;

/// How to judge a candidate.
struct Question {
  const task::Task* task = nullptr;
  task::Direction direction = task::Direction::kForward;
  std::vector<task::SettingKind> kinds;  // empty: all
  int trials = 5;                        // per setting
  std::optional<uint64_t> seed;          // the user's; else system entropy. Shown in the verdict
  /// `seed` is not the user's but the caller's, from entropy: candidates that are judged with it
  /// share their cases, which have no limit of uses. No candidate may be written after a verdict.
  bool seed_is_secret = false;
  bool fresh_cases = false;            // never take cases from the pool: for a new best
  task::AllowedOperators operators;    // what PyTorch may compute
  bool stop_at_first_failure = false;  // optimise: one failed setting is enough
  bool shadows = false;                // also check in exact arithmetic, with shadow values
  bool integers = false;               // also check bit for bit on small integers
  std::optional<uint64_t> run_seed;    // with `given` cases: the seed for everything else
  int schedules = -1;                  // other orders to try with shadows; -1: as needed
  /// Inputs to try that the task does not draw itself, a subset of task::OtherInputs().
  std::vector<task::Distribution> distributions;
  bool strict_layouts = false;  // strided and shifted tensors are inside the task's domain
  /// Only a few of these at each setting, and few trials at large sizes: another engine tries all.
  bool few_inputs = false;
  bool explores = false;  // also at sizes that no setting has (exploration.h)
  bool proves = false;    // also as a function of real numbers, where that is cheap (proof.h)
  /// The cases to judge on, by setting, from an earlier verdict; if empty, cases are drawn.
  std::map<std::string, std::vector<records::UsedCase>> given;
  /// If the Assay's engine is a GPU: what the emulator is asked about the same candidate. Null: it
  /// is not asked.
  std::shared_ptr<const EmulatorQuestion> emulator = nullptr;
};

/// The emulator's question beside a GPU's.
struct EmulatorQuestion {
  task::Task task;     // often with smaller sizes
  Question question;   // about `task`
  bool alone = false;  // the GPU only measures time, and does not judge
};

/// The parts, owned by the caller; all must outlive the Assay.
struct Parts {
  oracle::Oracle* oracle = nullptr;
  engine::Engine* engine = nullptr;
  build::Options build;
  record::Options record;
  /// For Python programs: the processes that run them, and what signature.py says about a setting.
  std::shared_ptr<trace::PythonPool> pythons;
  std::function<Result<Json>(const task::Task&, task::Direction, const task::Setting&)> signature;
  std::filesystem::path oracle_scripts;  // the folder of the oracle's code, for records
  std::stop_token stop;                  // judging and timing then end with kCancelled
  Events* events = nullptr;              // null: progress is not reported
  /// If `engine` is a GPU: the parts of the emulator, which answers Question::emulator. It may have
  /// the same oracle.
  std::shared_ptr<const Parts> emulator = nullptr;

  void Show(const Progress& progress) const {
    if (events != nullptr) events->Show(progress);
  }
};

/// A Python program. It is recorded as a whole, and its extensions are compiled then.
struct PythonProgram {
  std::string source_hash;
  std::optional<trace::WantedConfiguration> wanted = std::nullopt;  // trace::Options::wanted
};

/// A candidate and the result of its build.
struct Candidate {
  std::filesystem::path path;  // as the user named it, for messages
  std::variant<build::Images, build::BuildFailure, PythonProgram> built;
  build::Options built_with;
  /// The files, if the candidate has several; else null.
  std::shared_ptr<const build::Sources> sources = nullptr;
  std::vector<std::string> notes = {};  // for the user: what was assumed or ignored
  /// Keeps a generated source alive while it is judged; null if the source is a file of the user.
  std::shared_ptr<const os::TempDir> folder = nullptr;

  /// The images; null if it is not built, or is a Python program.
  const build::Images* images() const { return std::get_if<build::Images>(&built); }
};

/// Equal for candidates with the same code, compiled in the same way. Empty if it did not compile.
std::string ImageKeyOf(const Candidate& candidate);

/// A file *.py is not built. Thread-safe, so builds can run ahead of judging. `more`: other files
/// of the candidate.
Result<Candidate> BuildCandidate(const std::filesystem::path& kernel, const build::Options& options,
                                 const std::vector<std::filesystem::path>& more = {});
/// Builds files that were read, of the candidate that messages name `kernel`.
Result<Candidate> BuildCandidate(const std::filesystem::path& kernel, build::Sources sources,
                                 build::Options options);

/// Applies `change` to the question and to the emulator's, if it has one.
void Change(Question& question, const std::function<void(Question&)>& change);

/// Makes the question one about the cases of `verdict`, and the emulator's one about those of the
/// emulator's verdict beside it. For cases that came from the secret pool.
void UseCasesOf(const records::Verdict& verdict, Question& question);

/// The requested settings, in order.
std::vector<const task::Setting*> Chosen(const Question& question);
/// The same. Error: kInvalidArgument, if there are none.
Result<std::vector<const task::Setting*>> SomeChosen(const Question& question);

struct Judged {
  records::Verdict verdict;
  std::optional<plan::Plan> plan;  // of the first recorded setting
  build::Images images;            // of the plan
  std::string planned_setting;     // Setting::id of that setting
  std::set<std::string> launched;  // the mangled names of the kernels that judged calls launched
};

class Assay {
 public:
  explicit Assay(Parts parts) : parts_(std::move(parts)) {}

  /// Uses the build options that all candidates here share. Thread-safe.
  Result<Candidate> Build(const std::filesystem::path& kernel) const;

  /// Judges a built candidate. An Error means that cupel could not work (PyTorch missing, disk
  /// full, cancelled); everything that is the candidate's fault is in the verdict. If the question
  /// has one for the emulator, both engines judge, at the same time if they can
  /// (judge/both_engines.h).
  Result<Judged> Judge(const Candidate& candidate, const Question& question);
  /// Judge() after the emulator's part, if another Assay has answered question.emulator.
  Result<Judged> JudgeAfter(const Candidate& candidate, const Question& question, Judged emulated);

  /// A hash of the GPU work that a candidate requests (requested_work.h). Executes nothing.
  Result<std::optional<std::string>> RequestedWork(const Candidate& candidate,
                                                   const Question& question, uint64_t seed) const;

 private:
  Parts parts_;
};

}  // namespace cupel::assay
