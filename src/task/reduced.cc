// SPDX-License-Identifier: Apache-2.0
#include "task/reduced.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "task/heldout.h"

namespace cupel::task {
namespace {

/// `value`, or each number in it, no larger than `cap`.
Json Capped(const Json& value, const Json& cap) {
  if (value.is_number_integer()) return value <= cap ? value : cap;
  if (!value.is_array()) return value;
  Json list = Json::array();
  for (const Json& element : value) list.push_back(Capped(element, cap));
  return list;
}

const Json* Argument(const Setting& setting, const std::string& key) {
  for (const Json* arguments : {&setting.inputs, &setting.init}) {
    if (const auto found = arguments->find(key); found != arguments->end()) return &*found;
  }
  return nullptr;
}

/// True if cupel changed `key` to derive the setting.
bool IsDerived(const Setting& setting, const std::string& key) {
  return fmt::format(" {}", setting.derived).find(fmt::format(" {}=", key)) != std::string::npos;
}

/// Describes the arguments of `setting` that `caps` reduced, with their values in `listed`.
std::string WhatIsSmaller(const Setting& setting, const Setting& listed, const Json& caps) {
  std::string text;
  for (const auto& [key, cap] : caps.items()) {
    const Json* was = Argument(listed, key);
    const Json* is = Argument(setting, key);
    if (was == nullptr || is == nullptr || *is == *was || IsDerived(setting, key)) continue;
    text +=
        fmt::format("{}{}={} (of {})", text.empty() ? "" : " ", key, DumpJson(*is), DumpJson(*was));
  }
  return text;
}

/// A copy of `listed` with numbers above their caps replaced by the caps.
Setting Reduced(const Setting& listed, const Json& caps) {
  Setting setting = listed;
  for (const auto& [key, cap] : caps.items()) {
    for (Json* arguments : {&setting.inputs, &setting.init}) {
      const auto found = arguments->find(key);
      if (found != arguments->end()) *found = Capped(*found, cap);
    }
  }
  setting.reduced = WhatIsSmaller(setting, listed, caps);
  return setting;
}

bool HasEqual(const std::vector<Setting>& settings, const Setting& setting) {
  return std::any_of(settings.begin(), settings.end(), [&](const Setting& other) {
    return other.kind == setting.kind && other.init == setting.init &&
           other.inputs == setting.inputs;
  });
}

}  // namespace

Result<Json> ReadCaps(const Json& emulator, const std::vector<Setting>& settings,
                      std::string_view what) {
  const auto malformed = [&](const std::string& how) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} {}", what, how),
                "write {\"at_most\": {\"batch_size\": 2, …}}; see docs/formats/task.md");
  };
  if (!emulator.is_object() || emulator.size() != 1 || !emulator.contains("at_most") ||
      !emulator["at_most"].is_object()) {
    return malformed("is not an object whose only member is \"at_most\", an object");
  }
  const Json& caps = emulator["at_most"];
  for (const auto& [key, cap] : caps.items()) {
    if (!cap.is_number_integer() || cap < 1) {
      return malformed(
          fmt::format("caps \"{}\" at a value that is not an integer of 1 or more", key));
    }
    const auto has_it = [&name = key](const Setting& setting) {
      return setting.inputs.contains(name) || setting.init.contains(name);
    };
    const bool used = std::any_of(settings.begin(), settings.end(), has_it);
    if (!used) return malformed(fmt::format("caps \"{}\", which no setting has", key));
  }
  return caps;
}

Task Reduced(Task task) {
  for (size_t direction = 0; direction < std::size(task.settings); ++direction) {
    const Json& caps = task.caps[direction];
    if (caps.empty()) continue;
    std::vector<Setting> settings;
    bool derives = false;
    for (const Setting& setting : task.settings[direction]) {
      derives |= !setting.derived.empty();
      if (!setting.derived.empty()) continue;
      Setting reduced = Reduced(setting, caps);
      if (!HasEqual(settings, reduced)) settings.push_back(std::move(reduced));
    }
    if (derives) {
      for (Setting& derived : DeriveHeldout(settings.front())) {
        derived.reduced = WhatIsSmaller(derived, task.settings[direction].front(), caps);
        settings.push_back(std::move(derived));
      }
    }
    task.listed[direction] = std::exchange(task.settings[direction], std::move(settings));
    task.reduced = true;
  }
  return task;
}

}  // namespace cupel::task
