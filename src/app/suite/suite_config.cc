// SPDX-License-Identifier: Apache-2.0
#include "app/suite/suite_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/session.h"

namespace cupel::app {

namespace fs = std::filesystem;

Json SuiteConfig(const SuiteRunOptions& options) {
  const auto absolute = [](const fs::path& path) {
    return path.empty() ? "" : fs::absolute(path).lexically_normal().string();
  };
  Json include_roots = Json::array();
  for (const fs::path& root : options.compile.include_roots) {
    include_roots.push_back(absolute(root));
  }
  const bool emu = OnEmulator(options.common);
  return {{"input", absolute(options.input)}, {"kernels", absolute(options.kernels)},
          {"direction", options.direction},   {"settings", options.settings},
          {"trials", options.trials},         {"engine", emu ? "emu" : "gpu"},
          {"model", options.common.model},    {"arch", options.compile.arch},
          {"flags", options.compile.flags},   {"include_roots", std::move(include_roots)},
          {"baselines", options.baselines},   {"full_size", options.full_size},
          {"rounds", options.rounds},         {"compile_seconds", options.compile.seconds},
          {"explore", options.explore},       {"engines", options.common.engines},
          {"energy", options.energy}};
}

Status TakeSuiteConfig(const Json& config, SuiteRunOptions& options) {
  constexpr const char* kWhat = "the run's configuration";
  TRY_ASSIGN(options.input, JsonString(config, "input", kWhat));
  TRY_ASSIGN(options.kernels, JsonString(config, "kernels", kWhat));
  TRY_ASSIGN(options.direction, JsonString(config, "direction", kWhat));
  TRY_ASSIGN(options.settings, JsonString(config, "settings", kWhat));
  TRY_ASSIGN(const int64_t trials, JsonInt(config, "trials", kWhat));
  options.trials = static_cast<int>(trials);
  TRY_ASSIGN(const std::string engine, JsonString(config, "engine", kWhat));
  // A resume may use another GPU, but may not switch between GPU and emulator.
  const bool emu = OnEmulator(options.common);
  if (engine == "emu") options.common.device = "emu";
  if (engine == "gpu" && emu) options.common.device = "gpu";
  TRY_ASSIGN(options.common.model, JsonString(config, "model", kWhat));
  TRY_ASSIGN(options.compile.arch, JsonString(config, "arch", kWhat));
  TRY_ASSIGN(options.baselines, JsonBool(config, "baselines", kWhat));
  TRY_ASSIGN(options.full_size, JsonBool(config, "full_size", kWhat));
  if (config.contains("rounds")) {  // runs of older versions lack it
    TRY_ASSIGN(const int64_t rounds, JsonInt(config, "rounds", kWhat));
    if (rounds < kFewestRounds || rounds > kMostRounds) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: \"rounds\" is {}, but must be {} to {}", kWhat, rounds,
                              kFewestRounds, kMostRounds));
    }
    options.rounds = static_cast<int>(rounds);
  }
  // Runs of earlier versions neither explored nor used two engines.
  options.explore = JsonBool(config, "explore", kWhat).value_or(false);
  options.energy = JsonBool(config, "energy", kWhat).value_or(false);
  options.common.engines = JsonString(config, "engines", kWhat).value_or("gpu");
  if (config.contains("compile_seconds")) {
    TRY_ASSIGN(const int64_t seconds, JsonInt(config, "compile_seconds", kWhat));
    options.compile.seconds = static_cast<int>(std::clamp<int64_t>(seconds, 1, 7200));
  }
  options.compile.flags.clear();
  options.compile.include_roots.clear();
  TRY_ASSIGN(const Json* flags, JsonArray(config, "flags", kWhat));
  TRY_ASSIGN(const Json* roots, JsonArray(config, "include_roots", kWhat));
  for (const Json& flag : *flags) {
    if (flag.is_string()) options.compile.flags.push_back(flag.get<std::string>());
  }
  for (const Json& root : *roots) {
    if (root.is_string()) options.compile.include_roots.emplace_back(root.get<std::string>());
  }
  return {};
}

std::string ResumeDifference(const Json& then, const SuiteRunOptions& options) {
  const Json defaults = SuiteConfig(SuiteRunOptions{});
  const Json now = SuiteConfig(options);
  Json asked = Json::object();
  for (const auto& [key, value] : now.items()) {
    if (defaults[key] != value) asked[key] = value;
  }
  return ConfigDifference(then, asked);
}

std::string ConfigDifference(const Json& then, const Json& now) {
  // An older version of cupel that did not know an option behaved like its default, but for these.
  Json defaults = SuiteConfig(SuiteRunOptions{});
  defaults["explore"] = false;
  defaults["engines"] = "gpu";
  for (const auto& [key, value] : now.items()) {
    const Json& before = then.contains(key) ? then[key] : defaults[key];
    if (before != value) {
      return fmt::format("{}: was {}, is now {}", key, DumpJson(before), DumpJson(value));
    }
  }
  return "";
}

}  // namespace cupel::app
