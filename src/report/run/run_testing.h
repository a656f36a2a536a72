// A generated run for tests: 41 candidates in six generations, with every outcome, questions to
// models, votes, costs and hostile texts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "archive/archive.h"
#include "base/json.h"
#include "os/temp_dir.h"

namespace cupel::report {

inline constexpr const char* kHostile =
    "</script><script>document.title='pwned'</script><img src=x onerror=alert(1)>\x1b[2J";

struct TestRunOptions {
  uint64_t seed = 7;
  bool review = true;   // a setting of the configuration
  double step = 0.8;    // the factor of the best's value from one generation to the next
  int generations = 5;  // after the start, with eight candidates each
  bool models = true;   // false: a run with only the tuner, which records no stages
  std::string kind = "estimated_us";
};

namespace run_testing {

/// Aborts on an error, which is a bug of the test.
inline void Must(const Status& status) { CHECK(status.has_value()); }
template <typename T>
T Must(Result<T> result) {
  CHECK(result.has_value());
  return *std::move(result);
}

inline Json Verdict(const std::string& decision, const std::string& status, const Json& reasons) {
  const Json launch{{"kernel", std::string("Linear<") + kHostile + ">"},
                    {"grid", {5, 1, 1}},
                    {"block", {128, 1, 1}},
                    {"global_load_bytes", 655360},
                    {"global_store_bytes", 2560},
                    {"global_load_sectors", 35840},
                    {"global_store_sectors", 80},
                    {"touched_bytes", 1000000},
                    {"shared_wavefronts", 200},
                    {"shared_ideal_wavefronts", 100},
                    {"occupancy", 0.75},
                    {"limited_by", "registers"},
                    {"estimated_us", 11.6}};
  const Json setting{
      {"id", "single-0"},
      {"description", "batch_size=64"},
      {"status", status},
      {"trials",
       {{{"ok", status == "passed"},
         {"outputs",
          {{{"rms_error", 0.02}, {"rms_limit", 1}, {"max_error", "nan"}, {"max_limit", 1}}}}},
        {{"ok", true}}}},
      {"established", {{"shadow_inputs", 3}, {"exact_inputs", 2}}},
      {"distributions", {{"tried", {"uniform", "planted"}}}},
      {"counters", {{"estimated_us", 11.6}, {"launches", {launch}}}}};
  // An empty status means that nothing was run.
  const Json settings = status.empty() ? Json::array() : Json::array({setting});
  return Json{{"schema", "cupel.verdict/1"},
              {"verdict", decision},
              {"reasons", reasons},
              {"not_checked", {"speed on a GPU"}},
              {"device", "emu (h100)"},
              {"seed", "18446744073709551615"},
              {"seed_origin", "user"},
              {"digest", "d1ge57"},
              {"resources", {{{"kernel", "Linear"}, {"registers", 22}, {"spill_store_bytes", 8}}}},
              {"settings", settings},
              {"timing", {{"build_seconds", 1.5}, {"total_seconds", 0.25}}}};
}

inline Json Reason(const std::string& code) {
  return Json{{"code", code}, {"message", code + " " + kHostile}, {"where", "kernel.cu:7"}};
}

/// Fills one archive.
class Maker {
 public:
  Maker(archive::Archive& archive, const TestRunOptions& options)
      : archive_(archive), options_(options) {}

  void Make() {
    Must(archive_.AddEvent("started"));
    best_ = Add(0, 0, {}, "baseline");
    Judge(best_, "accepted", "passed", value_, Json::array());
    for (int generation = 1; generation <= options_.generations; ++generation) {
      const int64_t parent = best_;
      for (int j = 0; j < 8; ++j) Candidate(generation, j, parent);
      if (options_.models) Generation(generation);
    }
    Must(archive_.AddCost({{}, "emulate", "h100", 0, 0, 12.5, 0}));
    Must(archive_.AddEvent("stopped"));
    Must(archive_.AddEvent("resumed"));
    Must(archive_.SetStatus(archive::RunStatus::kFinished));
  }

 private:
  int64_t Add(int generation, int j, std::vector<int64_t> parents, const std::string& proposer) {
    archive::NewCandidate candidate;
    candidate.generation = generation;
    candidate.parents = std::move(parents);
    candidate.proposer = proposer;
    candidate.description = fmt::format("BLOCK {} -> {}", generation, j);
    candidate.source = "#include <torch/extension.h>\n";
    for (int line = 0; line < 30; ++line) {
      const bool changed = line == 4 * generation + j % 3;
      candidate.source += fmt::format("int line_{} = {};\n", line, changed ? generation : 0);
    }
    candidate.source += fmt::format("// {} {} {}\n", generation, j, kHostile);
    if (proposer.rfind("llm", 0) == 0) {
      const char* operators[] = {"rewrite", "diff", "crossover", "tune"};
      candidate.meta =
          DumpJson(Json{{"operator", operators[j % 4]},
                        {"name", fmt::format("idea {}.{} {}", generation, j, kHostile)},
                        {"thought", std::string("use shared memory ") + kHostile},
                        {"island", j % 2},
                        {"model", proposer.substr(4)},
                        {"exchange", Hash(generation, j)},
                        {"hints", {j % 2 == 0 ? 3 : 4}}});
    }
    const auto added = Must(archive_.AddCandidate(candidate));
    CHECK(added.added);
    return added.id;
  }

  static std::string Hash(int generation, int j) { return fmt::format("h{}-{}", generation, j); }

  void Judge(int64_t id, const std::string& decision, const std::string& status,
             std::optional<double> objective, const Json& reasons) {
    archive::NewVerdict verdict;
    verdict.decision = decision;
    verdict.json = DumpJson(Verdict(decision, status, reasons));
    verdict.objective = objective;
    verdict.objective_kind = options_.kind;
    const int64_t stored = Must(archive_.RecordVerdict(id, verdict));
    if (objective) Must(archive_.AddSamples(stored, {{"single-0", "emu", "candidate", {3, 1, 2}}}));
  }

  void Stage(int64_t id, const char* name, bool passed, const Json& detail, double seconds,
             bool drop = false) {
    if (!options_.models) return;
    const archive::Stage stage{id, name, passed, DumpJson(detail), seconds};
    Must(drop ? archive_.Drop(stage) : archive_.AddStage(stage));
  }

  void Ask(const std::string& role, const std::string& model, const std::string& hash,
           std::optional<int64_t> candidate, const std::string& error = "") {
    archive::NewExchange question;
    question.role = role;
    question.model = model;
    question.hash = hash;
    question.worst_tokens = 5000;
    question.request = DumpJson(
        Json{{"system", "You write kernels."},
             {"messages", {{{"role", "user"}, {"text", std::string("prompt ") + kHostile}}}}});
    const int64_t id = Must(archive_.BeginExchange(question));
    if (candidate) Must(archive_.AttributeExchange(hash, *candidate));
    if (error == "cut off") return;
    archive::ExchangeEnd end;
    end.answer = DumpJson(Json{{"text", std::string("answer ") + kHostile}, {"reasoning", "hm"}});
    end.error = error;
    end.input_tokens = 1000;
    end.output_tokens = 200;
    end.charged_tokens = 1200;
    end.charged_nano_usd = 10'000'000;
    end.seconds = 2;
    Must(archive_.EndExchange(id, end));
  }

  void Candidate(int generation, int j, int64_t parent) {
    std::vector<int64_t> parents{parent};
    if (j % 4 == 2 && parent > 1) parents.push_back(parent - 1);
    const std::string model = j % 2 == 0 ? "mock:a" : "mock:b";
    const int64_t id = Add(generation, j, parents, options_.models ? "llm:" + model : "tuner");
    if (options_.models) Ask("proposer", model, Hash(generation, j), id);
    if (options_.models && j == 2) {
      return Stage(id, "novelty", false, {{"nearest", 1}, {"similarity", 0.97}}, 0.01, true);
    }
    Stage(id, "novelty", true, {{"similarity", 0.4}}, 0.01);
    if (j == 3) return Broken(id);
    Stage(id, "build", true, Json::object(), 1);
    const std::string asked = Hash(generation, j) + "r";
    if (options_.models) Ask("reviewer:memory", "mock:judge", asked, {});
    const bool anyway =
        generation == 2 && j == 1;  // rejected by the review, but judged and accepted
    const bool fine = j != 4 && !anyway;
    Json opinion{{"aspect", "memory"},
                 {"model", "mock:judge"},
                 {"fine", fine},
                 {"confidence", 0.9},
                 {"exchange", asked}};
    if (!fine) {
      opinion["line"] = "int line_3 = 0;";
      opinion["reason"] = std::string("reads beyond ") + kHostile;
    }
    const Json detail{{"score", fine ? 0.9 : 0.25}, {"opinions", Json::array({opinion})}};
    const bool drop = options_.models && j == 4;
    Stage(id, "review", fine, detail, 3, drop);
    if (!drop) Engine(id, j);
  }

  /// A candidate that does not compile.
  void Broken(int64_t id) {
    const Json reasons = Json::array({Reason("build_failed")});
    Stage(id, "build", false, Json::object(), 1);
    Stage(id, "judge", false, {{"reasons", reasons}, {"lessons", "a ';' is missing"}}, 0);
    Judge(id, "rejected", "", {}, reasons);
  }

  void Engine(int64_t id, int j) {
    if (j == 5 || j == 7) {
      const std::string code = j == 5 ? "wrong_result" : "unsupported_opcode";
      Stage(id, "judge", false, {{"reasons", {Reason(code)}}}, 4);
      return Judge(id, j == 5 ? "rejected" : "unsupported", "failed", {},
                   Json::array({Reason(code)}));
    }
    Stage(id, "judge", true, {{"feedback", std::string("as fast as ") + kHostile}}, 4);
    Stage(id, "measure", j != 6, {{"ratio", 0.9}, {"refused", j == 6 ? "its clocks lie" : ""}}, 2);
    if (j == 6) return Judge(id, "rejected", "passed", {}, Json::array({Reason("clock")}));
    const double value = j == 0 ? value_ * options_.step : value_ * (1 + 0.1 * j);
    Judge(id, "accepted", "passed", value, Json::array());
    if (j != 0) return;
    value_ = value;
    best_ = id;
    Must(archive_.AddEvent("new_best", DumpJson(Json{{"candidate", id}, {options_.kind, value}})));
  }

  void Generation(int generation) {
    Must(archive_.AddEvent(
        "generation",
        DumpJson(Json{
            {"generation", generation},
            {"asked", 10},
            {"unusable", 1},
            {"problems",
             {{{"model", "mock:b"},
               {"exchange", fmt::format("u{}", generation)},
               {"reason", std::string("no code ") + kHostile}}}},
            {"copies", 1},
            {"reviewed", 6},
            {"seconds", 30.5},
            {"models",
             {{{"name", "mock:a"}, {"asked", 4 * generation}, {"rewarded", 3}, {"expected", 0.4}}}},
            {"hints",
             {{{"id", 3},
               {"text", std::string("Tile. ") + kHostile},
               {"tried", 4},
               {"earned", 1.5}}}}})));
    Ask("proposer", "mock:b", fmt::format("u{}", generation), {});
    Ask("summariser", "mock:a", fmt::format("s{}", generation), {},
        generation == 1 ? "HTTP 500" : "");
    if (generation == options_.generations) Ask("hints", "mock:a", "last", {}, "cut off");
  }

  archive::Archive& archive_;
  const TestRunOptions& options_;
  int64_t best_ = 0;
  double value_ = 10;
};

}  // namespace run_testing

/// In memory if possible, because an archive is synced hundreds of times.
inline os::TempDir TestFolder() {
  auto folder = os::TempDir::Create("/dev/shm");
  return folder ? *std::move(folder) : run_testing::Must(os::TempDir::Create());
}

/// Creates the run in `file`, which must not exist. Aborts on an error.
inline archive::Archive MakeTestRun(const std::filesystem::path& file,
                                    const TestRunOptions& options = {}) {
  archive::NewRun run;
  run.id = "run";
  run.task = "mnist_linear";
  run.direction = "forward";
  run.task_hash = "abc";
  run.cupel_version = "0.1.0";
  run.seed = options.seed;
  run.config = DumpJson(Json{{"task", "mnist_linear"},
                             {"start", "the starting kernel's source"},
                             {"user_seed", options.seed == 7},
                             {"loop", {{"review", options.review}, {"proposals", 8}}},
                             {"name", kHostile}});
  archive::Archive archive = run_testing::Must(archive::Archive::Create(file, run));
  run_testing::Maker(archive, options).Make();
  return archive;
}

}  // namespace cupel::report
