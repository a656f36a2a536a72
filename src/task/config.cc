// SPDX-License-Identifier: Apache-2.0
#include "task/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/spelling.h"

namespace cupel::task {
namespace {

constexpr size_t kMaxSettings = 4096;
constexpr size_t kTypingErrors = 2;

/// The list of objects at `key`. If the key is missing, returns [{}] and leaves `present` as it is.
Result<std::vector<Json>> ConfigList(const Json& config, const std::string& key,
                                     std::string_view what, bool& present) {
  const auto found = config.find(key);
  if (found == config.end()) return std::vector<Json>{Json::object()};
  present = true;
  if (!found->is_array()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: \"{}\" is not a list", what, key),
                "write a list of objects, e.g. [{\"batch_size\": 64}]");
  }
  std::vector<Json> list;
  for (const Json& entry : *found) {
    if (!entry.is_object()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: \"{}\" has an entry that is not an object", what, key),
                  "write a list of objects, e.g. [{\"batch_size\": 64}]");
    }
    list.push_back(entry);
  }
  // An empty list would make the product empty. Treat it like a missing list.
  if (list.empty()) list.push_back(Json::object());
  return list;
}

/// The distributions named at `key`; a missing list is empty.
Result<std::vector<Distribution>> NamedDistributions(const Json& domain, const char* key,
                                                     std::string_view what) {
  std::vector<Distribution> named;
  const auto found = domain.find(key);
  if (found == domain.end()) return named;
  const auto malformed = [&](const std::string& how) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: \"{}\" of the domain {}", what, key, how),
                "write a list of names: " + DistributionNames());
  };
  if (!found->is_array()) return malformed("is not a list");
  for (const Json& entry : *found) {
    if (!entry.is_string()) return malformed("has an entry that is not a name");
    const auto name = entry.get<std::string>();
    const auto distribution = DistributionNamed(name);
    if (!distribution || *distribution == Distribution::kUsual) {
      return malformed(fmt::format("has an unknown name \"{}\"", name.substr(0, 40)));
    }
    named.push_back(*distribution);
  }
  return named;
}

Json Merge(const Json& own, const Json& shared) {
  Json merged = own;
  for (const auto& [key, value] : shared.items()) merged[key] = value;
  return merged;
}

}  // namespace

std::string_view Name(Direction direction) {
  return direction == Direction::kForward ? "forward" : "backward";
}

std::string_view Name(SettingKind kind) {
  switch (kind) {
    case SettingKind::kSingle:
      return "single";
    case SettingKind::kMulti:
      return "multi";
    case SettingKind::kHeldout:
      return "heldout";
  }
  return "single";
}

std::string Setting::Describe() const {
  std::string text;
  const Json all = Merge(inputs, init);
  for (const auto& [key, value] : all.items()) {
    if (!text.empty()) text += ' ';
    text +=
        fmt::format("{}={}", key, value.is_string() ? value.get<std::string>() : DumpJson(value));
  }
  return text;
}

namespace {

/// Rejects misspelt names of lists, whose settings would be missing silently. Other members are
/// allowed: they are other tools' own.
Status CheckListNames(const Json& config, std::string_view what) {
  std::vector<std::string> known;
  for (const char* prefix : {"single_", "multi_", ""}) {
    for (const char* list : {"input", "init", "shared"}) {
      known.push_back(fmt::format("{}{}_configs", prefix, list));
    }
  }
  for (const auto& [key, value] : config.items()) {
    if (key.size() > 40 || std::find(known.begin(), known.end(), key) != known.end()) continue;
    const auto meant = std::find_if(known.begin(), known.end(), [&](const std::string& name) {
      return EditDistance(key, name) <= kTypingErrors;
    });
    if (meant == known.end()) continue;
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: unknown member \"{}\"", what, key),
                fmt::format("did you mean {}? see docs/formats/task.md", *meant));
  }
  return {};
}

}  // namespace

Status AppendSettings(const Json& config, std::string_view prefix, SettingKind kind,
                      std::string_view what, std::vector<Setting>& settings) {
  if (!config.is_object()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: not a JSON object", what),
                "write {\"single_input_configs\": [{…}], …}; see docs/formats/task.md");
  }
  TRY(CheckListNames(config, what));
  bool present = false;
  TRY_ASSIGN(const std::vector<Json> inits,
             ConfigList(config, fmt::format("{}init_configs", prefix), what, present));
  TRY_ASSIGN(const std::vector<Json> inputs,
             ConfigList(config, fmt::format("{}input_configs", prefix), what, present));
  TRY_ASSIGN(const std::vector<Json> shareds,
             ConfigList(config, fmt::format("{}shared_configs", prefix), what, present));
  if (!present) return {};
  if (inits.size() * inputs.size() * shareds.size() > kMaxSettings) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: more than {} {} settings", what, kMaxSettings, Name(kind)),
                "shorten the lists");
  }
  const auto first = static_cast<std::ptrdiff_t>(settings.size());
  int place = 0;
  for (const Json& init : inits) {
    for (const Json& input : inputs) {
      for (const Json& shared : shareds) {
        Setting setting;
        setting.id = fmt::format("{}-{}", Name(kind), place++);
        setting.kind = kind;
        setting.init = Merge(init, shared);
        setting.inputs = Merge(input, shared);
        const bool repeats =
            std::any_of(settings.begin() + first, settings.end(), [&](const Setting& earlier) {
              return earlier.init == setting.init && earlier.inputs == setting.inputs;
            });
        if (!repeats) settings.push_back(std::move(setting));
      }
    }
  }
  return {};
}

Result<Domain> ReadDomain(const Json& domain, std::string_view what) {
  const auto malformed = [&](const std::string& how) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: the domain {}", what, how),
                "write {\"include\": [names], \"exclude\": [names]}; see docs/formats/task.md");
  };
  if (!domain.is_object()) return malformed("is not a JSON object");
  for (const auto& [key, value] : domain.items()) {
    if (key != "include" && key != "exclude") {
      return malformed(fmt::format("has an unknown member \"{}\"", key.substr(0, 40)));
    }
  }
  Domain read;
  TRY_ASSIGN(read.include, NamedDistributions(domain, "include", what));
  TRY_ASSIGN(read.exclude, NamedDistributions(domain, "exclude", what));
  for (const Distribution both : read.include) {
    if (read.Excludes(both)) {
      return malformed(fmt::format("both includes and excludes \"{}\"", Name(both)));
    }
  }
  return read;
}

}  // namespace cupel::task
