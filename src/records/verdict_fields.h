// The field lists of a verdict and its parts (fields.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "records/fields.h"
#include "records/verdict.h"

namespace cupel::records {

template <>
struct Names<Decision> {
  static constexpr std::pair<Decision, std::string_view> kAll[] = {
      {Decision::kAccepted, "accepted"},
      {Decision::kRejected, "rejected"},
      {Decision::kUnsupported, "unsupported"},
      {Decision::kError, "error"}};
};

template <>
struct Names<Severity> {
  static constexpr std::pair<Severity, std::string_view> kAll[] = {{Severity::kError, "error"},
                                                                   {Severity::kWarning, "warning"}};
};

template <>
struct Names<SettingStatus> {
  static constexpr std::pair<SettingStatus, std::string_view> kAll[] = {
      {SettingStatus::kPassed, "passed"},
      {SettingStatus::kFailed, "failed"},
      {SettingStatus::kNotRun, "not_run"},
      {SettingStatus::kNoReference, "no_reference"},
      {SettingStatus::kCannotJudge, "cannot_judge"},
      {SettingStatus::kNotDeclared, "not_declared"},
      {SettingStatus::kRefused, "refused"}};
};

template <>
struct Names<SeedOrigin> {
  static constexpr std::pair<SeedOrigin, std::string_view> kAll[] = {
      {SeedOrigin::kUser, "user"}, {SeedOrigin::kEntropy, "entropy"}};
};

template <>
struct Names<task::Direction> {
  static constexpr std::pair<task::Direction, std::string_view> kAll[] = {
      {task::Direction::kForward, "forward"}, {task::Direction::kBackward, "backward"}};
};

template <>
struct Names<task::SettingKind> {
  static constexpr std::pair<task::SettingKind, std::string_view> kAll[] = {
      {task::SettingKind::kSingle, "single"},
      {task::SettingKind::kMulti, "multi"},
      {task::SettingKind::kHeldout, "heldout"}};
};

template <>
struct Fields<Reason> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& reason) {
    visit("code", reason.code, "stable name of the cause, see below");
    visit.As("message", reason.message, [&] { return reason.Text(); }, "one or two sentences");
    visit("where", reason.where, "the place as text; may be empty");
    auto& at = reason.at;
    visit.If(!at.setting.empty(), "setting", at.setting, "id of the setting");
    visit.If(at.trial.has_value(), "trial", at.trial, "of the setting, from 0");
    visit.If(at.output.has_value(), "output", at.output, "of the operation, from 0");
    visit.If(at.line > 0, "line", at.line, "of the source");
  }
};

template <>
struct Fields<Finding> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& finding) {
    visit("code", finding.code, "stable name: `out_of_bounds`");
    visit("severity", finding.severity, "warnings do not reject a kernel that is otherwise right");
    visit("message", finding.message, "one sentence");
    visit("kernel", finding.kernel, "with template arguments");
    visit("file", finding.file, "of the source line; may be empty");
    visit("line", finding.line, "0: not known");
    visit("block", finding.block, "of the first occurrence");
    visit("thread", finding.thread, "of the first occurrence");
    visit("where", finding.where, "the memory: `argument 1 (weights) + 5120 bytes`; may be empty");
    visit("count", finding.count, "occurrences of this code at this line");
  }
};

template <>
struct Fields<WrongElement> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& wrong) {
    visit("index", wrong.index, "in the output");
    visit("got", wrong.got, "the kernel's value");
    visit("wanted", wrong.wanted, "the true value");
  }
};

template <>
struct Fields<RoundedResults> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& r) {
    visit("elements", r.count, "whose truth is normal and not a number of the type");
    visit("above", r.above, "how many of them are greater than the truth");
    visit("outward", r.outward, "how many are farther from zero than the truth");
    visit("beyond_half", r.beyond_half, "how many are off by more than half a unit, at most one");
    visit("beyond_one", r.beyond_one, "how many are off by more than one unit");
    visit("subnormal", r.subnormal, "float16: elements whose truth is a subnormal number");
    visit("flushed", r.flushed, "how many of them are zero");
    visit("least_normal", r.least_normal, "float16: elements whose truth is a small normal number");
    visit("least_right", r.least_right, "how many of them are within a sixteenth of it");
    visit("roundoff", r.roundoff, "the unit roundoff of the type");
    visit("bias", r.bias,
          "the error along the truth, beyond that of rounding: 0.01 is 1 % too large");
  }
};

template <>
struct Fields<Comparison> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& c) {
    visit("ok", c.ok, "within the tolerance");
    visit("elements", c.count, "how many were compared");
    visit("wrong", c.wrong_count, "how many of them are wrong");
    visit("rms_error", c.rms_error, "root of the mean square error");
    visit("rms_limit", c.rms_limit, "what is allowed");
    visit("max_error", c.max_error, "the largest error");
    visit("max_limit", c.max_limit, "what is allowed; 0: the output is exact (integers, booleans)");
    visit.If(!c.ok, "code", c.code, "if not `ok`: as in a reason");
    visit.If(!c.ok, "message", c.message, "if not `ok`: what is wrong, and the probable cause");
    visit.If(!c.ok, "pattern", c.pattern,
             "if not `ok`: name of that cause ([judging.md](../judging.md)); may be empty");
    visit.If(!c.ok, "first_wrong", c.first_wrong,
             "if not `ok`: at most 5 elements, each with `index`, `got`, `wanted`");
    visit.If(!c.rounding.is_empty(), "rounding", c.rounding,
             "16-bit outputs: how the elements were rounded");
  }
};

template <>
struct Fields<Control> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& control) {
    visit("name", control.name, "of the wrong answer: `zeros`");
    visit("output", control.output, "the output that is wrong, from 0");
    visit.If(!control.skipped.empty(), "skipped", control.skipped, "why it was not tried");
    const bool tried = control.skipped.empty();
    bool rejected = !control.Passes();  // follows from the distance
    visit.If(tried, "ok", rejected, "the judge rejects it");
    visit.If(tried, "distance", control.distance, "its error as a multiple of the limit");
    visit.If(tried, "elements", control.elements, "how many were compared");
  }
};

template <>
struct Fields<UsedCase> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& used) {
    visit("kind", used.kind, "of its inputs");
    visit("seed", Decimal{used.seed}, "repeats the case");
    visit.If(!used.at.empty(), "at", used.at, "sizes other than the setting's");
  }
};

template <>
struct Fields<TrialReport> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& trial) {
    visit("seed", Decimal{trial.seed}, "of the inputs");
    visit("kind", trial.kind,
          "`usual`, a distribution ([judging.md](../judging.md), \"Other inputs\"), or for a trial "
          "that failed beyond the tolerance `shadow`, `tiny`, `integers`, `schedule`, `state`");
    visit("ok", trial.ok, "all outputs are right");
    visit("outputs", trial.outputs, "the comparison of each output, see below");
    const bool sampled = trial.emulated_blocks < trial.all_blocks;
    visit.If(sampled, "emulated_blocks", trial.emulated_blocks,
             "if not all blocks of all grids were emulated: how many; `elements` of the outputs "
             "then counts what these blocks wrote");
    visit.If(sampled, "all_blocks", trial.all_blocks, "of all grids");
  }
};

template <>
struct Fields<ShadowCause> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& cause) {
    visit("what", cause.what, "`add.s32 at kernel.cu:12`");
    visit("elements", cause.elements, "elements that depend on it");
  }
};

template <>
struct Fields<EstablishedOutput> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& output) {
    visit("name", output.name, "of the output");
    visit("floating", output.is_float, "its dtype is a float");
    visit("equal_inputs", output.equal_inputs,
          "inputs on which every element is equal in exact arithmetic");
    visit("elements", output.elements, "over all inputs");
    visit("equal", output.equal, "elements that are equal in exact arithmetic");
    visit("reset", output.reset, "elements whose exact value was lost on the way");
    visit("doubtful", output.doubtful, "elements that depend on a decision that rounding may turn");
    visit("own_rms", output.own_rms, "the kernel's own rounding, as a share of the output's scale");
    visit("own_max", output.own_max, "the largest of it");
    visit("reduced_precision", output.reduced_precision,
          "the kernel computes with less precision than its inputs have");
    visit("causes", output.causes,
          "of resets and doubts, the most frequent first: `what` (`add.s32 at kernel.cu:12`) and "
          "`elements`");
  }
};

template <>
struct Fields<Established> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& e) {
    visit("tolerance_inputs", e.tolerance_inputs,
          "inputs on which all outputs were within tolerance");
    visit("shadow_inputs", e.shadow_inputs, "inputs run with shadow values");
    visit("tiny_inputs", e.tiny_inputs, "how many of these were scaled by 2^-10");
    visit("exact_inputs", e.exact_inputs,
          "inputs of small integers on which all outputs were correct bit for bit");
    visit("schedules", e.schedules, "other orders of blocks and warps with the same result");
    visit("twin", e.twin,
          "the smaller sizes at which all this was tried, if the setting itself is too large; "
          "otherwise empty");
    visit("shadow_note", e.shadow_note,
          "why shadows were not tried or not conclusive; may be empty");
    visit("exact_note", e.exact_note, "the same for small integers");
    visit("schedule_note", e.schedule_note, "the same for other orders");
    visit("not_followed", e.not_followed, "instructions and nodes that shadows do not follow");
    visit("outputs", e.outputs, "each output, see below");
  }
};

template <>
struct Fields<NotTried> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& one) {
    visit("kind", one.kind, "of the inputs");
    visit("why", one.why, "the reason");
  }
};

template <>
struct Fields<Limit> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& limit) {
    visit("kind", limit.kind, "of the inputs");
    visit("code", limit.code, "as in a reason");
    visit("message", limit.message, "`refuses non-contiguous tensors`");
    visit("detail", limit.detail, "what was observed");
  }
};

template <>
struct Fields<OtherInputs> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& inputs) {
    visit("at", inputs.at, "the smaller sizes that replace the setting; otherwise empty");
    visit("tried", inputs.tried, "kinds of inputs");
    visit("not_tried", inputs.not_tried, "each with `kind` and `why`");
    visit("limits", inputs.limits,
          "what failed outside the task's domain: `kind`, `code`, "
          "`message`, `detail`");
  }
};

template <>
struct Fields<VerdictLimit> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& limit) {
    visit("kind", limit.kind, "of the inputs");
    visit("message", limit.message, "`refuses non-contiguous tensors`");
    visit("detail", limit.detail, "the first failure");
    visit("settings", limit.settings, "ids");
  }
};

template <>
struct Fields<SizeLimit> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& limit) {
    visit("code", limit.code, "as in a reason");
    visit("message", limit.message, "from which size on, and what fails");
  }
};

template <>
struct Fields<Exploration> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& explored) {
    visit("note", explored.note, "why sizes were not explored, or not all; may be empty");
    visit("recorded", explored.recorded, "sizes at which its host code was recorded");
    visit("kinds", explored.kinds, "kinds of work that it requested: kernels, blocks, flags");
    visit("unjudged", explored.unjudged, "kinds that no judged call has");
    visit("judged", explored.judged, "sizes at which it is also right");
    visit("limits", explored.limits,
          "where it fails beyond the settings (from some size on): `code`, `message`");
  }
};

template <>
struct Fields<ProofResult> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& proof) {
    visit("outcome", proof.outcome, "`proved`, `not proved` or `differs`");
    visit("setting", proof.setting, "id of the setting");
    visit("message", proof.message, "one sentence");
  }
};

template <>
struct Fields<LineCounters> {
  /// Members that are zero are left out, because most lines have few others.
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& line) {
    visit("file", line.file, "of the source");
    visit("line", line.line, "in the file");
    const auto count = [&](const char* name, auto& member, const char* meaning) {
      visit.If(member != 0, name, member, meaning);
    };
    auto& w = line.work;
    count("warp_instructions", w.warp_instructions, "of PTX");
    count("lane_instructions", w.lane_instructions, "of PTX");
    count("branches", w.branches, "conditional branches");
    count("divergent_branches", w.divergent_branches, "those at which lanes diverged");
    count("load_requests", w.load_requests, "warp instructions that load from global memory");
    count("store_requests", w.store_requests, "warp instructions that store to it");
    count("load_sectors", w.load_sectors, "32-byte sectors that these touch");
    count("store_sectors", w.store_sectors, "the same of stores");
    count("load_bytes", w.load_bytes, "bytes that all lanes requested");
    count("store_bytes", w.store_bytes, "the same of stores");
    count("touched_bytes", w.touched_bytes, "bytes of the sectors that a lane requested");
    count("shared_requests", w.shared_requests, "accesses to shared memory");
    count("shared_wavefronts", w.shared_wavefronts, "their wavefronts");
    count("shared_ideal_wavefronts", w.shared_ideal_wavefronts, "without bank conflicts");
    count("atomic_requests", w.atomic_requests, "atomic warp instructions on global memory");
    count("atomic_lanes", w.atomic_lanes, "atomics of single lanes");
    count("atomic_turns", w.atomic_turns,
          "lanes at the most requested address, summed over requests");
    count("barriers", w.barriers, "warp instructions");
    visit.If(w.sectors() != 0 && line.lane_stride != kIrregular, "lane_stride", line.lane_stride,
             "bytes between neighbouring lanes; left out if there is no rule");
  }
};

template <>
struct Fields<LaunchCounters> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& c) {
    visit("kernel", c.kernel, "demangled");
    visit("grid", c.grid, "of the launch");
    visit("block", c.block, "of the launch");
    visit("warp_instructions", c.warp_instructions, "of PTX");
    visit("lane_instructions", c.lane_instructions, "of PTX");
    visit("global_load_sectors", c.global_load_sectors,
          "32-byte sectors of global memory that loads touch");
    visit("global_store_sectors", c.global_store_sectors, "the same of stores");
    visit("global_load_bytes", c.global_load_bytes, "bytes that all lanes requested");
    visit("global_store_bytes", c.global_store_bytes, "the same of stores");
    visit("touched_bytes", c.work.touched_bytes, "bytes of the sectors that a lane requested");
    visit("global_requests", c.global_requests, "warp instructions that access global memory");
    visit("shared_requests", c.work.shared_requests,
          "accesses to shared memory after fusing neighbours as ptxas does");
    visit("shared_wavefronts", c.shared_wavefronts, "their wavefronts");
    visit("shared_ideal_wavefronts", c.work.shared_ideal_wavefronts,
          "their wavefronts without bank conflicts");
    visit("global_atomics", c.global_atomics, "atomics of single lanes");
    visit("atomic_turns", c.work.atomic_turns,
          "lanes at the most requested address, summed over warp instructions");
    visit("hottest_atomics", c.hottest_atomics,
          "turns of atomics at the line of 128 bytes that gets the most");
    visit("barriers", c.barriers, "warp instructions");
    visit("branches", c.work.branches, "conditional branches, as warp instructions");
    visit("divergent_branches", c.work.divergent_branches, "those at which lanes diverged");
    visit("floating_point_operations", c.floating_point_operations, "of lanes");
    visit("tensor_operations", c.tensor_operations,
          "of tensor cores, converted to the number that takes the same time at float16's rate");
    visit("imbalance", OrNull{c.imbalance}, "work of the busiest SM over that with equal blocks");
    visit("blocks_run", c.blocks_run, "of the grid");
    visit("blocks_counted", c.blocks_counted,
          "if less than the grid, the counts are extrapolated from these");
    visit("occupancy", OrNull{c.occupancy}, "resident warps over the maximum");
    visit("limited_by", c.limited_by, "what limits the occupancy");
    visit("estimated_us", OrNull{c.estimated_us}, "an estimate, never a measurement");
    visit("mix", c.mix, "warp instructions by class; classes without any are left out");
    visit("bounds_us", c.bounds, "the bounds from which the estimate is computed, slowest first");
    visit("lines", c.lines, "at most 16, most work first, see below");
  }
};

template <>
struct Fields<Counters> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& counters) {
    visit("estimated_us", counters.estimated_us, "for the whole plan");
    visit("launches", counters.launches, "see below");
  }
};

template <>
struct Fields<LargestError> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& largest) {
    visit("rms", largest.rms, "");
    visit("rms_over_limit", largest.rms_over_limit, "");
    visit("max", largest.max, "");
    visit("max_over_limit", largest.max_over_limit, "");
  }
};

template <>
struct Fields<SettingReport> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& setting) {
    visit("id", setting.id, "`single-0`");
    visit("kind", setting.kind, "who lists its sizes");
    visit("description", setting.description, "for people");
    visit("status", setting.status,
          "`no_reference`: the task's own reference fails here. `cannot_judge`: a wrong answer "
          "passes here. `not_declared`: the candidate does not claim it. `refused`, at derived "
          "sizes: the candidate's host code refused it, or cupel cannot run it there");
    visit("note", setting.note, "more about the status");
    visit("problems", setting.problems, "why it could not be run, as `reasons`");
    visit.Derived(
        "largest_error", [&] { return setting.LargestErrors(); }, "object",
        "over all trials and outputs: `rms`, `max`, and as shares of the limits `rms_over_limit`, "
        "`max_over_limit` (above 1: rejected)");
    visit.Since(
        "derived", setting.derived,
        "what differs from the task's first setting, if cupel derived the sizes; otherwise empty");
    visit.Since("reduced", setting.reduced,
                "`batch_size=2 (of 32)` if the emulator used the smaller sizes of task.json "
                "([task.md](task.md)); otherwise empty");
    visit.Since(
        "controls", setting.controls,
        "wrong answers that were tried ([judging.md](../judging.md#negative-controls)), see "
        "below");
    visit("trials", setting.trials, "see below");
    visit("distributions", setting.other_inputs,
          "inputs that the task does not draw itself, see below");
    visit("cases", setting.cases, "every case that was used, in order, see below");
    visit("findings", setting.findings, "what the engine found, see below");
    visit("established", setting.established,
          "what is established beyond the tolerance, see below");
    visit("counters", setting.counters,
          "of the first trial: `estimated_us` (an estimate, never a measurement) and `launches`, "
          "see below");
  }
};

template <>
struct Fields<SettingSeconds> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& seconds) {
    visit("host_us", seconds.host_us, "median recorded host time of a call");
    visit("oracle_seconds", seconds.oracle, "making cases");
    visit("record_seconds", seconds.record, "recording");
    visit("engine_seconds", seconds.engine, "executing");
    visit("judge_seconds", seconds.judge, "comparing");
  }
};

template <>
struct Fields<GpuState> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& state) {
    visit("sm_mhz", state.sm_mhz, "clock of the SMs");
    visit("memory_mhz", state.memory_mhz, "clock of the memory");
    visit("temperature_c", state.temperature_c, "of the GPU");
    visit("power_w", state.power_w, "drawn now");
    visit("throttled_by", state.throttled_by, "`power cap`, `thermal slowdown`");
    visit.If(state.processes > 0, "processes", state.processes,
             "with a context on this GPU, including cupel's own; not in a bench");
  }
  static const char* Problem(const GpuState& state) {
    const bool possible = state.sm_mhz >= 0 && state.memory_mhz >= 0 && state.processes >= 0 &&
                          std::isfinite(state.power_w) && state.power_w >= 0 &&
                          state.throttled_by.size() <= 64;
    return possible ? nullptr : "is not a possible state of a GPU";
  }
};

template <>
struct Fields<build::ListedFile> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& file) {
    visit("name", file.name, "relative to the candidate's folder");
    visit("sha256", file.hash, "of the file");
    visit("compiled", file.is_compiled, "false: a header, or another file that a file includes");
  }
};

template <>
struct Fields<build::KernelResources> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& resources) {
    visit("kernel", resources.kernel, "mangled");
    visit("registers", resources.registers, "of a thread");
    visit("static_shared_bytes", resources.static_shared, "of a block");
    visit("local_bytes", resources.local_bytes, "of a thread");
    visit("spill_store_bytes", resources.spill_stores, "of a thread");
    visit("spill_load_bytes", resources.spill_loads, "of a thread");
    visit("constant_bytes", resources.constant_bytes, "of the kernel");
    visit.If(!resources.remarks.empty(), "remarks", resources.remarks,
             "what ptxas says about lost speed, such as serialized `wgmma`");
  }
};

template <>
struct Fields<os::SandboxReport> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& report) {
    visit.Derived(
        "enough", [&] { return report.IsEnough(); }, "true or false",
        "the required parts are in force");
    visit("user_namespace", report.user_namespace, "in force");
    visit("mount_namespace", report.mount_namespace, "in force");
    visit("pid_namespace", report.pid_namespace, "in force");
    visit("network_namespace", report.network_namespace, "in force");
    visit("landlock", report.landlock, "in force");
    visit("seccomp", report.seccomp, "in force");
    visit("landlock_abi", report.landlock_abi, "version of the kernel's interface");
    visit("missing", report.missing, "parts that the kernel refused");
  }
};

template <>
struct Fields<Asked> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& asked) {
    visit("task", asked.task, "path");
    visit("kinds", asked.kinds, "of settings; empty: all");
    visit("trials", asked.trials, "for each setting");
    visit("shadows", asked.shadows, "run with shadow values");
    visit("integers", asked.integers, "run on small integers");
    visit("schedules", asked.schedules, "other orders; -1: as needed");
    visit.Since("explores", asked.explores, "also at sizes that no setting has");
    visit.Since("proves", asked.proves, "also as a function of real numbers");
    visit.Since("strict_layouts", asked.strict_layouts,
                "failures on strided and shifted tensors reject, instead of being limits");
    visit.Since("few_inputs", asked.few_inputs,
                "only a few of `distributions` at each setting, and two trials at large sizes, "
                "since another engine tries all");
    visit.Since("reduced", asked.reduced, "at the smaller sizes that the task sets");
    visit("distributions", asked.distributions, "other inputs");
    visit.Since("operators", asked.operators,
                "what PyTorch may compute: `allowed`, `none` or names of operators");
    visit.Since("compile_seconds", asked.compile_seconds, "limit of the compilation");
    visit("engine", asked.engine, "`emu` or `gpu`");
    visit("model", asked.model, "the GPU that is emulated");
    visit("arch", asked.arch, "`sm_90`");
    visit("flags", asked.flags, "beyond the defaults");
    visit("include_roots", asked.include_roots, "paths");
    visit.If(!asked.include_folders.empty(), "include_folders", asked.include_folders,
             "folders of a candidate of several files in which it finds headers");
  }
  static const char* Problem(const Asked& asked) {
    if (asked.trials < 1 || asked.trials > 10000)
      return "has trials that are not within 1 to 10000";
    if (asked.compile_seconds < 1 || asked.compile_seconds > 7200) {
      return "has compile_seconds that are not within 1 to 7200";
    }
    if (asked.schedules < -1 || asked.schedules > 1000) {
      return "has schedules that are not within -1 to 1000";
    }
    return nullptr;
  }
};

template <>
struct Fields<Verdict> {
  template <typename Visitor, typename Record>
  static void Visit(Visitor& visit, Record& v) {
    visit.Derived(
        "schema", [] { return std::string(kVerdictSchema); }, "text", "`cupel.verdict/1`");
    visit("verdict", v.decision, "the decision; exit status 0, 1, 3, 2");
    visit("reasons", v.reasons,
          "why the kernel was not accepted, see below; empty only if accepted");
    visit("notes", v.notes, "legal but worth knowing");
    visit("not_checked", v.not_checked,
          "what the decision does not cover, such as `speed on a GPU`");
    visit.Derived(
        "limits", [&] { return v.Limits(); }, "list of objects",
        "what the kernel cannot do and the task does not require: `kind` of inputs, `message`, "
        "`detail` (the first failure), `settings`");
    visit.Since(
        "declared", v.declared,
        "if the candidate declares what it supports: `judged only for batch_size=64: 1 of 11 "
        "settings`; otherwise empty");
    visit("task", v.task, "what was judged");
    visit("direction", v.direction, "of the operation");
    visit("kernel", v.kernel_path, "as the user named it");
    visit("device", v.device, "where: `emu (h100)`");
    visit("seed", Decimal{v.seed}, "of the secrets of this verdict");
    visit("seed_origin", v.seed_origin,
          "`user`: `--seed` repeats this verdict; `entropy`: the inputs were secret");
    visit("trials", v.trials, "cases requested for each setting");
    visit("source_sha256", v.source_hash, "of the candidate");
    visit.If(!v.files.empty(), "files", v.files, "if the candidate has several, see below");
    visit("image_key", v.image_key, "of source, flags, toolkit and shim");
    visit("task_sha256", v.task_hash, "of the task's code and configs");
    visit.Group("versions", "who made it", [&](auto& in) {
      in("cupel", v.cupel_version, "version");
      in("toolkit", v.toolkit, "`nvcc 13.0.88`");
      in("torch", v.torch_version, "PyTorch, which computes the truth");
    });
    visit("flags", v.flags, "the compiler's");
    visit("resources", v.resources, "ptxas's report for each kernel, see below");
    visit("settings", v.settings, "in the order judged, see below");
    visit.Since("exploration", v.exploration, "sizes that no setting has, see below");
    visit.If(!v.proof.outcome.empty(), "proof", v.proof,
             "whether it computes the task's function of real numbers, see below");
    visit.If(!v.other_engines.empty(), "other_engines", v.other_engines,
             "if `device` is a GPU and the emulator judged, too: its verdict, with all members but "
             "`digest`. The decision and its reasons include it");
    auto& p = v.provenance;
    visit.Group(
        "timing", "the only member that differs between two runs with one seed",
        [&](auto& in) {
          in("build_seconds", v.build_seconds, "compiling");
          in("total_seconds", v.total_seconds, "all");
          in.ById("settings", v.settings, &SettingReport::id, &SettingReport::seconds,
                  "by id: `host_us` (median recorded host time of a call), "
                  "`oracle_seconds`, `record_seconds`, `engine_seconds`, `judge_seconds`");
          in.If(p.gpu.has_value(), "gpu", p.gpu, "its state when the verdict was made, see below");
        },
        false);
    visit("asked", p.asked, "the request, except the seed, see below");
    visit.Group("image_sha256", "of the executed files; empty if nothing was built", [&](auto& in) {
      in("shared_object", p.shared_object_hash, "host code");
      in("ptx", p.ptx_hash, "what the emulator executes");
      in("cubin", p.cubin_hash, "what a GPU executes");
    });
    visit.Group("tools", "of cupel", [&](auto& in) {
      in("program_sha256", p.program_hash, "the program");
      in("commit", p.commit, "`-dirty`: the tree was changed; empty: unknown");
      in("shim_sha256", p.shim_hash, "the headers that replace PyTorch's");
      in("oracle_sha256", p.oracle_hash, "the code that computes truth");
    });
    visit.Group("sandbox", "in which hostile code ran; null if it did not run", [&](auto& in) {
      in("compiler", p.compiler, "see below");
      in("recorder", p.recorder, "see below");
    });
    visit.Group("environment", "the machine", [&](auto& in) {
      in("host", p.host, "its name");
      in("system", p.system, "`Linux 6.1.0 x86_64`");
      in("processor", p.processor, "of the host");
      in("cores", p.cores, "that cupel may use");
    });
    visit.Later("digest", v.digest, "of all but `timing`, see below");
  }
  static const char* Problem(const Verdict& v) {
    if (v.other_engines.size() > 1) return "has more than one other engine";
    if (!v.other_engines.empty() && v.provenance.asked.engine != "gpu") {
      return "has an other engine, though its own is no GPU";
    }
    for (const Verdict& other : v.other_engines) {
      if (!other.other_engines.empty()) return "has an other engine with another one in it";
    }
    return nullptr;
  }
};

}  // namespace cupel::records
