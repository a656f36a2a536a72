// Reads records from JSON by their field lists (fields.h). The JSON comes from outside, so
// everything in it is checked: types, ranges, names of closed sets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/parse_number.h"
#include "base/result.h"
#include "base/text.h"
#include "plan/plan.h"
#include "records/counters.h"
#include "records/fields.h"
#include "records/read_options.h"

namespace cupel::records {

/// The state of one reading: what is tolerated, and the first problem.
class ReadState {
 public:
  explicit ReadState(const ReadOptions& options) : options_(options) {}

  const ReadOptions& options() const { return options_; }
  bool failed() const { return !problem_.empty(); }
  /// "settings[3].status is not one of passed, failed"
  const std::string& problem() const { return problem_; }

  /// How many problems were reported, also if they are tolerated.
  size_t problems() const { return problems_; }
  /// Pays for a list item. False if the whole is too large; the item must then be left out.
  bool Pay(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ <= options_.most_bytes) return true;
    Report("is too much: the file has too many list items");
    return false;
  }

  /// The member at the current place is missing or malformed. It keeps its default.
  void Report(const std::string& problem) {
    ++problems_;
    if (!options_.tolerant && problem_.empty()) {
      problem_ = path_.empty() ? problem : path_ + " " + problem;
    }
  }
  void ReportMissing(const char* name) {
    const Step step(*this, name);
    Report("is missing");
  }

  /// Extends the current place while the object exists.
  class Step {
   public:
    Step(ReadState& state, const char* name) : state_(state), size_(state.path_.size()) {
      if (size_ > 0) state_.path_ += '.';
      state_.path_ += name;
    }
    Step(ReadState& state, size_t index) : state_(state), size_(state.path_.size()) {
      state_.path_ += fmt::format("[{}]", index);
    }
    ~Step() { state_.path_.resize(size_); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    ReadState& state_;
    size_t size_;
  };

 private:
  ReadOptions options_;
  std::string path_, problem_;
  size_t problems_ = 0, bytes_ = 0;
};

template <HasFields T>
void Read(const Json& json, T& into, ReadState& state);
template <typename T>
void Read(const Json& json, std::optional<T>& into, ReadState& state);
template <typename T>
void Read(const Json& json, std::vector<T>& into, ReadState& state);

template <typename T>
void Read(const Json& json, const OrNull<T>& into, ReadState& state);

inline void Read(const Json& json, bool& into, ReadState& state) {
  if (!json.is_boolean()) return state.Report("is not true or false");
  into = json.get<bool>();
}

template <typename T>
  requires(std::is_integral_v<T>)
void Read(const Json& json, T& into, ReadState& state) {
  if (!json.is_number_integer()) return state.Report("is not an integer");
  const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<uint64_t>())
                                              : std::in_range<T>(json.get<int64_t>());
  if (!fits) return state.Report("is out of range");
  into = json.is_number_unsigned() ? static_cast<T>(json.get<uint64_t>())
                                   : static_cast<T>(json.get<int64_t>());
}

inline void Read(const Json& json, double& into, ReadState& state) {
  if (json.is_number()) {
    into = json.get<double>();
    return;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  if (text == "nan") {
    into = std::numeric_limits<double>::quiet_NaN();
  } else if (text == "inf" || text == "-inf") {
    into = text == "inf" ? kInfinity : -kInfinity;
  } else {
    state.Report("is not a number");
  }
}

inline void Read(const Json& json, std::string& into, ReadState& state) {
  if (!json.is_string()) return state.Report("is not a text");
  into = Bounded(json.get_ref<const std::string&>(), state.options().longest_text);
}

inline void Read(const Json& json, plan::Dim3& into, ReadState& state) {
  if (!json.is_array() || json.size() != 3) return state.Report("is not a list of three integers");
  plan::Dim3 dim;
  ReadState strict{ReadOptions{}};
  Read(json[0], dim.x, strict);
  Read(json[1], dim.y, strict);
  Read(json[2], dim.z, strict);
  if (strict.failed()) return state.Report("is not a list of three integers");
  into = dim;
}

inline void Read(const Json& json, InstructionMix& into, ReadState& state) {
  if (!json.is_object()) return state.Report("is not an object");
  for (size_t i = 0; i < into.size(); ++i) {
    const char* name = Name(static_cast<InstructionClass>(i));
    const ReadState::Step step(state, name);
    if (const auto found = json.find(name); found != json.end()) Read(*found, into[i], state);
  }
}

inline void Read(const Json& json, std::vector<std::pair<std::string, double>>& into,
                 ReadState& state) {
  if (!json.is_object()) return state.Report("is not an object");
  if (json.size() > state.options().longest_list) return state.Report("has too many members");
  for (const auto& [name, number] : json.items()) {
    const ReadState::Step step(state, name.c_str());
    auto& [known, value] = into.emplace_back();
    Read(json.at(name), OrNull{value}, state);
    Read(Json(name), known, state);
  }
}

template <typename T>
void Read(const Json& json, const Decimal<T>& into, ReadState& state) {
  const auto number =
      json.is_string() ? ParseNumber<T>(json.get_ref<const std::string&>()) : std::nullopt;
  if (!number) return state.Report("is not a decimal 64-bit number");
  into.value = *number;
}

template <typename T>
void Read(const Json& json, const OrNull<T>& into, ReadState& state) {
  if (json.is_null()) {
    into.value = std::numeric_limits<T>::quiet_NaN();
  } else if (json.is_number()) {
    into.value = json.get<T>();
  } else {
    state.Report("is not a number");
  }
}

template <HasNames T>
void Read(const Json& json, T& into, ReadState& state) {
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  std::string names;
  for (const auto& [value, name] : Names<T>::kAll) {
    if (name == text) {
      into = value;
      return;
    }
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  state.Report("is not one of " + names);
}

template <typename T>
void Read(const Json& json, std::optional<T>& into, ReadState& state) {
  if (json.is_null()) return into.reset();
  T value{};
  const size_t problems = state.problems();
  Read(json, value, state);
  // Part of a record is better than none, but a malformed value is none.
  const bool is_usable = HasFields<T> ? json.is_object() : state.problems() == problems;
  if (is_usable) into = std::move(value);
}

/// Tolerantly, malformed items are left out.
template <typename T>
void Read(const Json& json, std::vector<T>& into, ReadState& state) {
  if (!json.is_array()) return state.Report("is not a list");
  if (json.size() > state.options().longest_list) state.Report("has too many items");
  for (size_t i = 0; i < json.size() && i < state.options().longest_list; ++i) {
    const ReadState::Step step(state, i);
    if (state.failed() || !state.Pay(sizeof(T))) return;
    T item{};
    const size_t problems = state.problems();
    Read(json[i], item, state);
    const bool is_usable = HasFields<T> ? json[i].is_object() : state.problems() == problems;
    if (is_usable) into.push_back(std::move(item));
  }
}

/// A visitor (fields.h).
class Reader {
 public:
  Reader(const Json& from, ReadState& state) : from_(from), state_(state) {}

  template <typename T>
  void operator()(const char* name, T&& member, const char*) {
    Take(name, member, true);
  }
  template <typename T>
  void Since(const char* name, T&& member, const char*) {
    Take(name, member, false);
  }
  template <typename T>
  void If(bool, const char* name, T&& member, const char*) {
    Take(name, member, false);
  }
  template <typename T>
  void Later(const char* name, T&& member, const char*) {
    Take(name, member, false);
  }
  template <typename T, typename Value>
  void As(const char* name, T&& member, const Value&, const char*) {
    Take(name, member, true);
  }
  template <typename Value>
  void Derived(const char*, const Value&, const char*, const char*) {}
  template <typename Members>
  void Group(const char* name, const char*, const Members& members, bool is_required = true) {
    if (!is_required && !from_.contains(name)) return;
    const Json* group = Object(name);
    if (group == nullptr) return;
    const ReadState::Step step(state_, name);
    Reader reader(*group, state_);
    members(reader);
  }
  template <typename Item, typename T>
  void ById(const char* name, std::vector<Item>& list, std::string Item::* id, T Item::* member,
            const char*) {
    const Json* object = Object(name);
    if (object == nullptr) return;
    const ReadState::Step step(state_, name);
    std::map<std::string_view, const Json*> members;
    for (const auto& [key, value] : object->items()) members.emplace(key, &value);
    for (Item& item : list) {
      const auto found = members.find(item.*id);
      if (found == members.end()) {
        state_.ReportMissing((item.*id).c_str());
        continue;
      }
      const ReadState::Step of_item(state_, (item.*id).c_str());
      Read(*found->second, item.*member, state_);
    }
  }

 private:
  const Json* Object(const char* name) {
    const auto found = from_.find(name);
    if (found != from_.end() && found->is_object()) return &*found;
    const ReadState::Step step(state_, name);
    state_.Report("is not an object");
    return nullptr;
  }

  template <typename T>
  void Take(const char* name, T&& member, bool is_required) {
    if (state_.failed()) return;
    const auto found = from_.find(name);
    if (found == from_.end()) {
      if (is_required) state_.ReportMissing(name);
      return;
    }
    const ReadState::Step step(state_, name);
    Read(*found, member, state_);
  }

  const Json& from_;
  ReadState& state_;
};

template <HasFields T>
void Read(const Json& json, T& into, ReadState& state) {
  if (!json.is_object()) return state.Report("is not an object");
  Reader reader(json, state);
  Fields<T>::Visit(reader, into);
  if constexpr (requires { Fields<T>::Problem(into); }) {
    if (const char* problem = Fields<T>::Problem(into)) state.Report(problem);
  }
}

/// A tolerant reader accepts any schema.
inline Status CheckSchema(const Json& json, std::string_view schema, std::string_view what,
                          const ReadOptions& options) {
  if (options.tolerant || !json.is_object()) return {};
  const auto found = json.find("schema");
  if (found != json.end() && *found == schema) return {};
  return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: its schema is not {}", what, schema),
              "pass a file that cupel wrote");
}

/// Reads a whole record. `what` names it in the message.
template <HasFields T>
Result<T> ReadAll(const Json& json, std::string_view what, const ReadOptions& options) {
  T record{};
  ReadState state(options);
  Read(json, record, state);
  if (!json.is_object() || state.failed()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: {}", what, state.failed() ? state.problem() : "is not a JSON object"),
        "pass a file that cupel wrote");
  }
  return record;
}

}  // namespace cupel::records
