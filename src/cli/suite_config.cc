// SPDX-License-Identifier: Apache-2.0
#include "cli/suite_config.h"

#include <fmt/format.h>

#include "app/session.h"

namespace cupel::cli {

namespace fs = std::filesystem;

Json SuiteConfig(const SuiteRunCommand& command) {
  const auto absolute = [](const fs::path& path) {
    return path.empty() ? "" : fs::absolute(path).lexically_normal().string();
  };
  Json include_roots = Json::array();
  for (const fs::path& root : command.compile.include_roots) {
    include_roots.push_back(absolute(root));
  }
  const bool emu = OnEmulator(command.common);
  return {{"input", absolute(command.input)}, {"kernels", absolute(command.kernels)},
          {"direction", command.direction},   {"settings", command.settings},
          {"trials", command.trials},         {"engine", emu ? "emu" : "gpu"},
          {"model", command.common.model},    {"arch", command.compile.arch},
          {"flags", command.compile.flags},   {"include_roots", std::move(include_roots)},
          {"baselines", command.baselines},   {"full_size", command.full_size},
          {"rounds", command.rounds}};
}

Status TakeSuiteConfig(const Json& config, SuiteRunCommand& command) {
  constexpr const char* kWhat = "the run's configuration";
  TRY_ASSIGN(command.input, JsonString(config, "input", kWhat));
  TRY_ASSIGN(command.kernels, JsonString(config, "kernels", kWhat));
  TRY_ASSIGN(command.direction, JsonString(config, "direction", kWhat));
  TRY_ASSIGN(command.settings, JsonString(config, "settings", kWhat));
  TRY_ASSIGN(const int64_t trials, JsonInt(config, "trials", kWhat));
  command.trials = static_cast<int>(trials);
  TRY_ASSIGN(const std::string engine, JsonString(config, "engine", kWhat));
  // A resume may use another GPU, but may not switch between GPU and emulator.
  const bool emu = OnEmulator(command.common);
  if (engine == "emu") command.common.device = "emu";
  if (engine == "gpu" && emu) command.common.device = "gpu";
  TRY_ASSIGN(command.common.model, JsonString(config, "model", kWhat));
  TRY_ASSIGN(command.compile.arch, JsonString(config, "arch", kWhat));
  TRY_ASSIGN(command.baselines, JsonBool(config, "baselines", kWhat));
  TRY_ASSIGN(command.full_size, JsonBool(config, "full_size", kWhat));
  if (config.contains("rounds")) {  // runs of older versions lack it
    TRY_ASSIGN(const int64_t rounds, JsonInt(config, "rounds", kWhat));
    if (rounds < app::kFewestRounds || rounds > app::kMostRounds) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: \"rounds\" is {}, but must be {} to {}", kWhat, rounds,
                              app::kFewestRounds, app::kMostRounds));
    }
    command.rounds = static_cast<int>(rounds);
  }
  command.compile.flags.clear();
  command.compile.include_roots.clear();
  TRY_ASSIGN(const Json* flags, JsonArray(config, "flags", kWhat));
  TRY_ASSIGN(const Json* roots, JsonArray(config, "include_roots", kWhat));
  for (const Json& flag : *flags) {
    if (flag.is_string()) command.compile.flags.push_back(flag.get<std::string>());
  }
  for (const Json& root : *roots) {
    if (root.is_string()) command.compile.include_roots.emplace_back(root.get<std::string>());
  }
  return {};
}

std::string ResumeDifference(const Json& then, const SuiteRunCommand& command) {
  const Json defaults = SuiteConfig(SuiteRunCommand{});
  const Json now = SuiteConfig(command);
  Json asked = Json::object();
  for (const auto& [key, value] : now.items()) {
    if (defaults[key] != value) asked[key] = value;
  }
  return ConfigDifference(then, asked);
}

std::string ConfigDifference(const Json& then, const Json& now) {
  const Json defaults = SuiteConfig(SuiteRunCommand{});
  for (const auto& [key, value] : now.items()) {
    // An older version of cupel that did not know an option behaved like its default.
    const Json& before = then.contains(key) ? then[key] : defaults[key];
    if (before != value) {
      return fmt::format("{}: was {}, is now {}", key, DumpJson(before), DumpJson(value));
    }
  }
  return "";
}

}  // namespace cupel::cli
