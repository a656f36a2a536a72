// Compares a GPU with the reference interpreter: every form of an instruction, kernels of blocks
// and clusters, and random programs, bit for bit where PTX defines the bits, within PTX's bounds
// for .approx. Without a GPU it prints the reason and exits with status 77.
//
//   gpu_differential [--self-check] [--calibrate] [--print] [--programs N] [--first SEED]
//                    [--optimize LEVEL]
//
// By default the driver's compiler does not optimise, because the test is about single
// instructions. With optimisation the compiler contracts multiplications with additions, and has
// some bugs.
// --self-check runs the fast interpreter instead of a GPU. --calibrate prints the worst error of
// each approximation instead of comparing. --print prints all PTX.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>

#include "blocks.h"
#include "calibration.h"
#include "fast.h"
#include "forms.h"
#include "generator.h"
#include "ptx/parser.h"
#include "runner.h"

namespace cupel::reference {
namespace {

constexpr int kSkipped = 77;
constexpr size_t kThreads = 4 * kFormBlock;

struct Options {
  bool self_check = false, calibrate = false, print = false;
  uint64_t programs = 600, first = 1;
  int optimize = 0;
};

struct Tally {
  size_t same = 0, different = 0, refused = 0;
};

/// Returns the numbers after "line ", as PTX compilers print them.
std::set<size_t> LinesNamed(const std::string& log) {
  std::set<size_t> lines;
  for (size_t at = log.find("line "); at != log.npos; at = log.find("line ", at + 1)) {
    const size_t number = std::strtoull(log.c_str() + at + 5, nullptr, 10);
    if (number > 0) lines.insert(number);
  }
  return lines;
}

/// Loads a module of all texts in which the runner finds no errors, and marks these in `kept`.
/// Returns an error message if nothing could be loaded, otherwise an empty string.
std::string LoadTolerantly(Runner& runner, const std::vector<std::string>& texts,
                           std::vector<bool>* kept) {
  kept->assign(texts.size(), true);
  for (int attempt = 0; attempt < 50; ++attempt) {
    std::string all = kModuleHead;
    std::vector<size_t> ends;  // last line of each text
    size_t line = 3;
    for (size_t i = 0; i < texts.size(); ++i) {
      if ((*kept)[i]) {
        all += texts[i];
        line += static_cast<size_t>(std::count(texts[i].begin(), texts[i].end(), '\n'));
      }
      ends.push_back(line);
    }
    const std::string log = runner.Load(all);
    if (log.empty()) return {};
    bool fewer = false;
    for (const size_t number : LinesNamed(log)) {
      const auto at = std::lower_bound(ends.begin(), ends.end(), number) - ends.begin();
      if (number <= 3 || static_cast<size_t>(at) >= texts.size()) continue;
      (*kept)[static_cast<size_t>(at)] = false;
      fewer = true;
    }
    if (!fewer) return log;
  }
  return "too many attempts: errors remain";
}

/// The kernel of a form, without the module's header.
std::string KernelText(const Form& form, size_t number) {
  const std::string module = FormModule({&form, 1}, number);
  return module.substr(module.find(".visible"));
}

void CheckFormOn(Runner& runner, const Form& form, size_t number, Tally* tally) {
  const std::string kernel = "f" + std::to_string(number);
  const std::vector<std::byte> inputs = FormInputs(form, kThreads, number + 1);
  std::vector<std::vector<std::byte>> expected{inputs,
                                               std::vector<std::byte>(kThreads * kResultBytes)};
  std::vector<std::byte> in = inputs, out = expected[1];
  std::vector<std::byte>* const buffers[] = {&in, &out};
  std::string wrong = runner.Run(kernel, kThreads / kFormBlock, kFormBlock, buffers, {});
  if (wrong.empty() && !form.operation) {
    const auto module = ptx::Parse(FormModule({&form, 1}, number));
    wrong = module ? RunReference(*module, kernel, kThreads / kFormBlock, kFormBlock, &expected)
                   : module.error().message;
  }
  size_t count = 0;
  for (size_t t = 0; t < kThreads && wrong.empty(); ++t) {
    const std::string text = CheckForm(form, inputs, expected[1], out, t);
    if (!text.empty() && count++ < 3) fmt::print("DIFFERS {}\n", text);
  }
  if (!wrong.empty()) fmt::print("FAILED {}: {}\n", form.name, wrong);
  ++(wrong.empty() && count == 0 ? tally->same : tally->different);
}

Tally CheckForms(Runner& runner) {
  constexpr size_t kBatch = 128;
  Tally tally;
  const std::vector<Form> forms = AllForms();
  for (size_t begin = 0; begin < forms.size(); begin += kBatch) {
    const size_t end = std::min(begin + kBatch, forms.size());
    std::vector<std::string> texts;
    for (size_t i = begin; i < end; ++i) texts.push_back(KernelText(forms[i], i));
    std::vector<bool> kept;
    const std::string log = LoadTolerantly(runner, texts, &kept);
    if (!log.empty()) {
      fmt::print("FAILED to load forms {} to {}: {}\n", begin, end, log);
      tally.different += end - begin;
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      if (kept[i - begin]) {
        CheckFormOn(runner, forms[i], i, &tally);
      } else {
        ++tally.refused;
        fmt::print("rejected by the compiler: {}\n", forms[i].name);
      }
    }
  }
  return tally;
}

/// Checks a program of the loaded module. Returns an error message, or an empty string.
std::string CheckProgramOn(Runner& runner, const Program& program) {
  const auto module = ptx::Parse(kModuleHead + program.Text());
  if (!module) return module.error().message;
  const size_t threads = size_t{program.grid} * program.block;
  std::vector<std::vector<std::byte>> expected{ProgramInputs(program),
                                               std::vector<std::byte>(threads * kProgramOutput),
                                               std::vector<std::byte>(kCommonBytes)};
  std::vector<std::vector<std::byte>> got = expected;
  std::string wrong =
      RunReference(*module, program.KernelName(), program.grid, program.block, &expected);
  std::vector<std::byte>* const buffers[] = {&got[0], &got[1], &got[2]};
  if (wrong.empty()) {
    wrong = runner.Run(program.KernelName(), program.grid, program.block, buffers, {});
  }
  if (wrong.empty()) wrong = CompareResults(program, expected[1], got[1]);
  if (wrong.empty() && expected[2] != got[2]) wrong = "the shared buffer differs";
  return wrong;
}

/// The same for a program that is loaded as the only one of a module.
std::string CheckAlone(Runner& runner, const Program& program) {
  const std::string log = runner.Load(kModuleHead + program.Text());
  return log.empty() ? CheckProgramOn(runner, program) : log;
}

Tally CheckPrograms(Runner& runner, const Options& options) {
  constexpr uint64_t kBatch = 32;
  constexpr size_t kShown = 5;
  Tally tally;
  size_t shown = 0;
  std::vector<Program> failed;
  for (uint64_t begin = 0; begin < options.programs; begin += kBatch) {
    std::vector<Program> programs;
    std::vector<std::string> texts;
    for (uint64_t i = begin; i < std::min(begin + kBatch, options.programs); ++i) {
      programs.push_back(GenerateProgram(options.first + i));
      texts.push_back(programs.back().Text());
    }
    std::vector<bool> kept;
    const std::string log = LoadTolerantly(runner, texts, &kept);
    if (!log.empty()) fmt::print("FAILED to load programs from {}: {}\n", programs[0].seed, log);
    for (size_t i = 0; i < programs.size(); ++i) {
      // The compiler must accept every program.
      const std::string wrong =
          !log.empty() || !kept[i] ? "compiler error" : CheckProgramOn(runner, programs[i]);
      ++(wrong.empty() ? tally.same : tally.different);
      if (wrong.empty()) continue;
      fmt::print("DIFFERS program {}: {}\n", programs[i].seed, wrong);
      failed.push_back(programs[i]);
    }
    for (; !failed.empty() && shown < kShown; ++shown) {
      const Program small = Minimised(
          failed.back(), [&](const Program& p) { return !CheckAlone(runner, p).empty(); });
      fmt::print("smallest part of program {} that differs ({}):\n{}\n", small.seed,
                 CheckAlone(runner, small), small.Body());
      failed.pop_back();
    }
    failed.clear();
  }
  return tally;
}

std::unique_ptr<Runner> OpenRunner(const Options& options, std::string* reason) {
  return options.self_check ? FastRunner() : GpuRunner(options.optimize, reason);
}

enum class Outcome : char { kSame, kDifferent, kRefused, kFault };

/// Checks a kernel of blocks or clusters, as a module of its own.
Outcome CheckBlock(Runner& runner, const BlockKernel& kernel) {
  const std::string log = runner.Load(kernel.text);
  if (!log.empty()) {
    fmt::print("rejected by the compiler: {}\n{}\n", kernel.name, log);
    return Outcome::kRefused;
  }
  const auto module = ptx::Parse(kernel.text);
  std::vector<std::vector<std::byte>> expected = kernel.buffers, got = kernel.buffers;
  std::string wrong =
      module ? RunReference(*module, "k", kernel.grid, kernel.block, &expected, kernel.maps)
             : module.error().message;
  std::vector<std::vector<std::byte>*> buffers;
  for (auto& buffer : got) buffers.push_back(&buffer);
  Outcome outcome = Outcome::kDifferent;
  if (wrong.empty()) {
    wrong = runner.Run("k", kernel.grid, kernel.block, buffers, kernel.maps);
    if (!wrong.empty()) outcome = Outcome::kFault;
  }
  if (wrong.empty()) wrong = CompareBuffers(expected, got);
  if (wrong.empty()) return Outcome::kSame;
  fmt::print("DIFFERS {}: {}\n", kernel.name, wrong);
  return outcome;
}

/// The kernels of blocks and clusters. They run in child processes, because a process whose kernel
/// failed cannot use its GPU any more. Must be called before this process uses the GPU. Returns
/// nothing if no GPU is usable.
std::optional<Tally> CheckBlocks(const Options& options) {
  Tally tally;
  const std::vector<BlockKernel> kernels = AllBlockKernels();
  for (size_t next = 0; next < kernels.size();) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) std::abort();
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) std::abort();
    if (child == 0) {
      std::string reason;
      const std::unique_ptr<Runner> runner = OpenRunner(options, &reason);
      if (!runner) fmt::print("SKIPPED: no usable GPU: {}\n", reason);
      if (runner && next == 0) fmt::print("comparing {} with the reference\n", runner->Name());
      for (size_t i = next; i < kernels.size() && runner; ++i) {
        const Outcome outcome = CheckBlock(*runner, kernels[i]);
        if (write(ends[1], &outcome, 1) != 1 || outcome == Outcome::kFault) break;
      }
      std::fflush(stdout);
      _exit(runner ? 0 : kSkipped);
    }
    close(ends[1]);
    size_t done = 0;
    for (Outcome outcome{}; read(ends[0], &outcome, 1) == 1; ++done) {
      ++(outcome == Outcome::kSame      ? tally.same
         : outcome == Outcome::kRefused ? tally.refused
                                        : tally.different);
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) return std::nullopt;
    if (done == 0) {
      fmt::print("DIFFERS {}: the process ended\n", kernels[next].name);
      ++tally.different;
      done = 1;
    }
    next += done;
  }
  return tally;
}

bool ParseOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--self-check") {
      options->self_check = true;
    } else if (argument == "--calibrate") {
      options->calibrate = true;
    } else if (argument == "--print") {
      options->print = true;
    } else if (argument == "--programs" && i + 1 < argc) {
      options->programs = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--optimize" && i + 1 < argc) {
      options->optimize = static_cast<int>(std::strtol(argv[++i], nullptr, 10));
    } else if (argument == "--first" && i + 1 < argc) {
      options->first = std::strtoull(argv[++i], nullptr, 10);
    } else {
      return false;
    }
  }
  return true;
}

int Main(int argc, char** argv) {
  Options options;
  if (!ParseOptions(argc, argv, &options)) {
    fmt::print(stderr,
               "usage: {} [--self-check] [--calibrate] [--print] [--programs N] [--first SEED]"
               " [--optimize LEVEL]\n",
               argv[0]);
    return 2;
  }
  if (options.print) {
    fmt::print("{}", FormModule(AllForms(), 0));
    for (const BlockKernel& kernel : AllBlockKernels()) {
      fmt::print("// {}\n{}", kernel.name, kernel.text);
    }
    for (uint64_t i = 0; i < options.programs; ++i) {
      fmt::print("{}", GenerateProgram(options.first + i).Text());
    }
    return 0;
  }
  if (options.calibrate) {
    std::string reason;
    const std::unique_ptr<Runner> runner = OpenRunner(options, &reason);
    if (runner) return CalibrateAll(*runner, AllForms());
    fmt::print("SKIPPED: no usable GPU: {}\n", reason);
    return kSkipped;
  }
  const auto start = std::chrono::steady_clock::now();
  auto report = [&](const char* what, const Tally& tally) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    fmt::print("{}: {} agree, {} differ, {} rejected by the compiler; {:.1f} s\n", what, tally.same,
               tally.different, tally.refused, seconds.count());
    std::fflush(stdout);
    return tally.different == 0;
  };
  const std::optional<Tally> of_blocks = CheckBlocks(options);
  if (!of_blocks) return kSkipped;
  const bool blocks = report("kernels of blocks", *of_blocks);
  std::string reason;
  const std::unique_ptr<Runner> runner = OpenRunner(options, &reason);
  if (!runner) {
    fmt::print("FAILED: {}\n", reason);
    return 1;
  }
  const bool forms = report("instruction forms", CheckForms(*runner));
  const bool programs = report("random programs", CheckPrograms(*runner, options));
  return forms && blocks && programs ? 0 : 1;
}

}  // namespace
}  // namespace cupel::reference

int main(int argc, char** argv) { return cupel::reference::Main(argc, argv); }
