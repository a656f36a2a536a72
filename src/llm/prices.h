// Prices of models per token: a JSON table that users edit (docs/models.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "llm/request.h"

namespace cupel::llm {

/// Billionths of a dollar, so that sums are exact.
using NanoUsd = int64_t;

inline double Dollars(NanoUsd amount) { return static_cast<double>(amount) * 1e-9; }

/// Dollars per million tokens.
struct Price {
  double input = 0;
  double cached = 0;  // input that came from the provider's cache
  double output = 0;

  /// Rounded up.
  NanoUsd Of(const Usage& usage) const;
};

class Prices {
 public:
  /// {"models": {"openai:gpt-x": {"input": 2, "cached": 0.5, "output": 8}, "ollama:*": {…}}}
  /// "cached" defaults to "input".
  static Result<Prices> Parse(const Json& json, std::string_view what);
  /// Loads DataDir()/share/prices.json and the user's prices.json in ConfigDir(), which takes
  /// precedence. Ignores missing files.
  static Result<Prices> Load();
  static Result<Prices> Load(const std::vector<std::filesystem::path>& files);

  /// The entry with the model's name, otherwise the longest matching entry that ends in *.
  std::optional<Price> Find(std::string_view model) const;

 private:
  struct Entry {
    std::string name;
    Price price;
  };
  std::vector<Entry> entries_;  // later entries take precedence
};

}  // namespace cupel::llm
