// SPDX-License-Identifier: Apache-2.0
#include "build/steps.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace cupel::build {
namespace {

using std::string_view;
using Environment = std::map<std::string, std::string>;

/// Splits a line like a shell, for the syntax that nvcc uses: double quotes, backslashes and $NAME.
/// Returns nothing for any other syntax.
std::optional<Command> Split(string_view line, const Environment& environment) {
  Command words;
  std::string word;
  bool quoted = false, open = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      quoted = !quoted;
      open = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
      open = true;
    } else if (c == '$') {
      size_t end = i + 1;
      while (end < line.size() &&
             (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '_'))
        ++end;
      const auto variable = environment.find(std::string(line.substr(i + 1, end - i - 1)));
      if (variable == environment.end()) return std::nullopt;
      word += variable->second;
      open = true;
      i = end - 1;
    } else if (!quoted && (c == ' ' || c == '\t')) {
      if (open) words.push_back(std::move(word));
      word.clear();
      open = false;
    } else if (!quoted && string_view("|&;<>()`'*?[]{}~#").find(c) != string_view::npos) {
      // nvcc's own flags and the allow-list contain none of these unquoted.
      return std::nullopt;
    } else {
      word += c;
      open = true;
    }
  }
  if (quoted) return std::nullopt;
  if (open) words.push_back(std::move(word));
  return words;
}

bool Has(const Command& command, string_view word) {
  return std::find(command.begin(), command.end(), word) != command.end();
}

bool HasPrefix(const Command& command, string_view prefix) {
  return std::any_of(command.begin(), command.end(), [&](const std::string& word) {
    return word.compare(0, prefix.size(), prefix) == 0;
  });
}

string_view BaseName(string_view path) { return path.substr(path.rfind('/') + 1); }

/// NAME=value with a name of word characters.
bool IsAssignment(string_view line) {
  const size_t equals = line.find('=');
  return equals != string_view::npos && equals > 0 &&
         std::all_of(line.begin(), line.begin() + static_cast<ptrdiff_t>(equals),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

}  // namespace

std::optional<Steps> ParseDryrun(string_view listing) {
  Steps steps;
  Environment variables;
  std::string shape;
  for (string_view line : SplitLines(listing)) {
    if (line.substr(0, 3) != "#$ ") continue;
    line.remove_prefix(3);
    if (IsAssignment(line)) {
      std::string value(line.substr(line.find('=') + 1));
      const size_t last = value.find_last_not_of(" \t");
      value.resize(last == std::string::npos ? 0 : last + 1);
      variables[std::string(line.substr(0, line.find('=')))] = value;
      continue;
    }
    auto command = Split(line, variables);
    if (!command || command->empty()) return std::nullopt;
    const string_view tool = BaseName((*command)[0]);
    if (tool == "rm") continue;
    // One letter per step: P and p preprocess for the host and the device.
    if (tool == "cudafe++") {
      shape += 'F';
      steps.host.push_back(std::move(*command));
    } else if (tool == "cicc" || tool == "ptxas" || tool == "fatbinary") {
      shape += tool == "cicc" ? 'c' : tool == "ptxas" ? 'a' : 'b';
      steps.device.push_back(std::move(*command));
    } else if (Has(*command, "-E")) {
      const bool device = HasPrefix(*command, "-D__CUDA_ARCH__=");
      shape += device ? 'p' : 'P';
      (device ? steps.device : steps.host).push_back(std::move(*command));
    } else {
      const bool links = !Has(*command, "-c");
      shape += !links ? 'C' : Has(*command, "-shared") ? 'L' : '?';
      (links ? steps.link : steps.join).push_back(std::move(*command));
    }
  }
  if (shape != "PFpcabCL") return std::nullopt;
  for (const char* name : {"PATH", "LD_LIBRARY_PATH"}) {
    if (variables.count(name) != 0) steps.environment[name] = variables[name];
  }
  return steps;
}

}  // namespace cupel::build
