// SPDX-License-Identifier: Apache-2.0
#include "build/operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "build/source_scan.h"

namespace cupel::build {
namespace {

using std::string;
using std::string_view;

struct Parameter {
  string type;  // of the schema, without alias marks: "Tensor", "int[]?"
  string name;
  string fallback;  // the default value; empty: none
  bool is_written = false;
};

struct Schema {
  string full;  // "aten::sum.dim_IntList"
  string base;  // "sum"
  std::vector<Parameter> parameters;
  string returns;
  bool has_out = false;  // the last parameters, of which the first is `first_out`, are results
  size_t first_out = 0;
};

/// Splits at commas outside of brackets.
std::vector<string_view> Split(string_view text) {
  std::vector<string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) depth += (text[i] == '(' || text[i] == '[');
    if (i < text.size()) depth -= (text[i] == ')' || text[i] == ']');
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    string_view part = text.substr(begin, i - begin);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    if (!part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

/// Removes "(a!)" and the size in "int[2]".
string Plain(string_view type) {
  string plain;
  bool in_alias = false, in_size = false;
  for (const char c : type) {
    if (c == '(') in_alias = true;
    if (c == ']') in_size = false;
    if (!in_alias && !in_size) plain += c;
    if (c == ')') in_alias = false;
    if (c == '[') in_size = true;
  }
  if (plain.starts_with("SymInt")) plain = "int" + plain.substr(6);
  return plain;
}

std::optional<Schema> Parse(string_view text) {
  const size_t open = text.find('(');
  const size_t arrow = text.rfind(") -> ");
  if (open == string_view::npos || arrow == string_view::npos || arrow < open) return std::nullopt;
  Schema schema;
  schema.full = string(text.substr(0, open));
  string_view base = schema.full;
  if (!base.starts_with("aten::")) return std::nullopt;
  base.remove_prefix(6);
  schema.base = string(base.substr(0, base.find('.')));
  schema.returns = string(text.substr(arrow + 5));
  bool is_named = false;
  for (string_view part : Split(text.substr(open + 1, arrow - open - 1))) {
    if (part == "*") {
      is_named = true;
      continue;
    }
    Parameter parameter;
    if (const size_t equals = part.find('='); equals != string_view::npos) {
      parameter.fallback = string(part.substr(equals + 1));
      part = part.substr(0, equals);
    }
    const size_t space = part.rfind(' ');
    if (space == string_view::npos) return std::nullopt;
    parameter.name = string(part.substr(space + 1));
    parameter.type = Plain(part.substr(0, space));
    parameter.is_written = part.find('!') != string_view::npos;
    if (is_named && parameter.is_written && !schema.has_out) {
      schema.has_out = true;
      schema.first_out = schema.parameters.size();
    }
    schema.parameters.push_back(std::move(parameter));
  }
  return schema;
}

constexpr std::array<std::pair<string_view, string_view>, 26> kTypes = {{
    {"Tensor", "const Tensor&"},
    {"Tensor?", "const optional<Tensor>&"},
    {"Tensor[]", "TensorList"},
    {"Tensor?[]", "ArrayRef<optional<Tensor>>"},
    {"int", "int64_t"},
    {"int?", "optional<int64_t>"},
    {"int[]", "IntArrayRef"},
    {"int[]?", "OptionalIntArrayRef"},
    {"float", "double"},
    {"float?", "optional<double>"},
    {"float[]?", "optional<ArrayRef<double>>"},
    {"bool", "bool"},
    {"bool?", "optional<bool>"},
    {"Scalar", "const Scalar&"},
    {"Scalar?", "const optional<Scalar>&"},
    {"Scalar[]", "ArrayRef<Scalar>"},
    {"ScalarType", "ScalarType"},
    {"ScalarType?", "optional<ScalarType>"},
    {"Layout", "Layout"},
    {"Layout?", "optional<Layout>"},
    {"Device", "Device"},
    {"Device?", "optional<Device>"},
    {"MemoryFormat", "MemoryFormat"},
    {"MemoryFormat?", "optional<MemoryFormat>"},
    {"str", "std::string_view"},
    {"str?", "optional<std::string_view>"},
}};

string_view TypeOf(string_view type) {
  for (const auto& [schema, cpp] : kTypes) {
    if (schema == type) return cpp;
  }
  return {};
}

/// The default value in C++; empty if it cannot be written.
string DefaultOf(const Parameter& parameter) {
  const string& text = parameter.fallback;
  const string& type = parameter.type;
  if (text == "None") return type.ends_with("[]?") ? "{}" : "nullopt";
  if (text == "True") return "true";
  if (text == "False") return "false";
  if (type == "MemoryFormat" || type == "MemoryFormat?") {
    return "static_cast<MemoryFormat>(" + text + ")";
  }
  if (type == "ScalarType" || type == "ScalarType?") {
    return "static_cast<ScalarType>(" + text + ")";
  }
  if (type.starts_with("str")) {
    if (text.size() < 2) return {};
    return '"' + text.substr(1, text.size() - 2) + '"';
  }
  if (text.starts_with('[') && text.ends_with(']')) {
    return "{" + text.substr(1, text.size() - 2) + "}";
  }
  if (text.find_first_not_of("0123456789.e+-") != string::npos) return {};
  if (type == "int[]") return "int64_t{" + text + "}";
  return text;
}

/// Layout, device and pinned memory after a dtype: PyTorch's C++ functions have TensorOptions.
bool AreOptions(const std::vector<Parameter>& parameters, size_t at) {
  constexpr std::array<string_view, 4> kNames = {"dtype", "layout", "device", "pin_memory"};
  if (at + kNames.size() > parameters.size()) return false;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (parameters[at + i].name != kNames[i]) return false;
  }
  return true;
}

string ReturnOf(const Schema& schema) {
  string plain;
  const string_view returns = schema.returns;
  if (!returns.starts_with('(')) {
    plain = Plain(returns);
    if (plain == "Tensor") return "Tensor";
    return plain == "Tensor[]" ? "std::vector<Tensor>" : "";
  }
  string list;
  for (const string_view part : Split(returns.substr(1, returns.size() - 2))) {
    if (!Plain(part.substr(0, part.find(' '))).starts_with("Tensor") ||
        part.find('[') != string_view::npos) {
      return {};
    }
    list += list.empty() ? "Tensor" : ", Tensor";
  }
  return "std::tuple<" + list + ">";
}

/// The function and the method of an overload.
class Overload {
 public:
  explicit Overload(const Schema& schema) : schema_(schema) {
    const auto& parameters = schema.parameters;
    has_method_ = !schema.has_out && !parameters.empty() && parameters[0].name == "self" &&
                  parameters[0].type == "Tensor";
    is_supported_ = Translate();
  }

  /// `known`: the signatures that the headers contain. Some overloads differ only in Python.
  /// `shortest`: those of the calls with the fewest arguments. A default that would make such a
  /// call ambiguous is dropped, as PyTorch does.
  void AppendTo(OperatorHeaders* headers, std::set<string>* known, std::set<string>* shortest) {
    if (!is_supported_) return;
    const string name = schema_.base + (schema_.has_out ? "_out" : "");
    if (!known->insert(Signature(name, declared_.size())).second) return;
    size_t required = declared_.size();
    while (required > 0 && !declared_[required - 1].fallback.empty()) --required;
    while (!shortest->insert(Signature(name, required)).second && required < declared_.size()) {
      declared_[required++].fallback.clear();
    }
    headers->functions +=
        fmt::format("inline {} {}({}) {{ {} }}\n", returns_, name, List(0), Body(false));
    if (!has_method_) return;
    headers->methods +=
        fmt::format("{} {}({}) const {{ {} }}\n", returns_, name, List(1), Body(true));
  }

 private:
  struct Declared {
    string text, fallback;
  };

  /// The name and the types of the first `count` parameters.
  string Signature(const string& name, size_t count) const {
    string signature = name;
    for (size_t i = 0; i < count; ++i) {
      signature += "," + declared_[i].text.substr(0, declared_[i].text.rfind(' '));
    }
    return signature;
  }

  /// False if a type is not supported.
  bool Translate() {
    const string result = ReturnOf(schema_);
    if (result.empty()) return false;
    const auto& all = schema_.parameters;
    for (size_t i = schema_.first_out; schema_.has_out && i < all.size(); ++i) {
      declared_.push_back({"Tensor& " + Name(i), ""});
    }
    for (size_t i = 0; i < all.size(); ++i) {
      if (AreOptions(all, i)) {
        declared_.push_back({"TensorOptions options", "{}"});
        passed_ +=
            ", cupel::shim::DtypeOf(options), nullopt, cupel::shim::DeviceOf(options), nullopt";
        i += 3;
        continue;
      }
      if (i > 0 || !has_method_) passed_ += ", " + Name(i);
      if (schema_.has_out && i >= schema_.first_out) continue;
      const string_view type = TypeOf(all[i].type);
      const string fallback = all[i].fallback.empty() ? string() : DefaultOf(all[i]);
      if (type.empty() || (fallback.empty() && !all[i].fallback.empty())) return false;
      declared_.push_back({fmt::format("{} {}", type, Name(i)), fallback});
    }
    const bool in_place = !schema_.has_out && !all.empty() && all[0].is_written;
    returns_self_ = result == "Tensor" && (in_place || schema_.has_out);
    call_ = fmt::format("cupel::shim::CallOperator<{}>(\"{}\"", result, schema_.full);
    returns_ = returns_self_ ? "Tensor&" : result;
    return true;
  }

  string List(size_t first) const {
    string list;
    for (size_t i = first; i < declared_.size(); ++i) {
      if (i > first) list += ", ";
      list += declared_[i].text;
      if (!declared_[i].fallback.empty()) list += " = " + declared_[i].fallback;
    }
    return list;
  }

  string Body(bool is_method) const {
    const string self = is_method ? "static_cast<const Tensor&>(*this)" : Name(0);
    const string call = call_ + (has_method_ ? ", " + self : "") + passed_ + ")";
    if (!returns_self_) return "return " + call + ";";
    const string written = schema_.has_out ? Name(schema_.first_out) : self;
    return fmt::format("{}; return const_cast<Tensor&>({});", call, written);
  }

  /// Schemas name parameters as they like.
  string Name(size_t i) const {
    constexpr std::array<string_view, 8> kKeywords = {"operator", "default", "float", "int",
                                                      "bool",     "double",  "long",  "char"};
    const string& name = schema_.parameters[i].name;
    const bool is_keyword = std::find(kKeywords.begin(), kKeywords.end(), name) != kKeywords.end();
    return is_keyword ? name + "_" : name;
  }

  const Schema& schema_;
  bool has_method_ = false, returns_self_ = false, is_supported_ = false;
  std::vector<Declared> declared_;
  string call_, passed_, returns_;
};

}  // namespace

bool CallsUnqualified(string_view source) {
  constexpr string_view kUsing = "using namespace ";
  for (size_t at = source.find(kUsing); at != string_view::npos; at = source.find(kUsing, at + 1)) {
    string_view space = source.substr(at + kUsing.size());
    space = Trim(space.substr(0, space.find(';')));
    if (space == "at" || space == "torch") return true;
  }
  return false;
}

std::vector<string> OperatorsIn(string_view source, const std::vector<string>& names) {
  const bool are_visible = CallsUnqualified(source);
  std::set<string> found;
  const auto is_known = [&](const string& name) {
    return std::binary_search(names.begin(), names.end(), name);
  };
  for (size_t i = 0; i < source.size();) {
    if (!IsWordChar(source[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < source.size() && IsWordChar(source[i])) ++i;
    size_t before = begin;
    while (before > 0 && (source[before - 1] == ' ' || source[before - 1] == '\n')) --before;
    const bool is_member = before > 0 && (source[before - 1] == '.' || source[before - 1] == ':' ||
                                          source.substr(0, before).ends_with("->"));
    if (!is_member && !are_visible) continue;
    string name(source.substr(begin, i - begin));
    // The out variants of an operator are among its own overloads.
    if (name.ends_with("_out")) name.resize(name.size() - 4);
    if (is_known(name)) found.insert(std::move(name));
  }
  return {found.begin(), found.end()};
}

OperatorHeaders DeclareOperators(const std::vector<string>& schemas,
                                 const std::vector<string>& names) {
  OperatorHeaders headers;
  std::set<string> known, shortest;
  for (const string& text : schemas) {
    const auto schema = Parse(text);
    if (!schema || !std::binary_search(names.begin(), names.end(), schema->base)) continue;
    Overload(*schema).AppendTo(&headers, &known, &shortest);
  }
  return headers;
}

}  // namespace cupel::build
