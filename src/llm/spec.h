// The spec of a model, as users write it: PROVIDER[+BASE-URL]:MODEL[@OPTION=VALUE,…]
// (docs/models.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "llm/limiter.h"
#include "llm/request.h"
#include "llm/url.h"
#include "llm/wire.h"

namespace cupel::llm {

enum class ProviderKind { kService, kCommand, kMailbox, kReplay };

struct ModelSpec {
  ProviderKind kind = ProviderKind::kService;
  std::string provider;  // "openai", "command" …
  /// The name in records, messages and prices: the spec without options; for commands "command:"
  /// and the program.
  std::string name;

  // kService
  WireFormat format = WireFormat::kOpenAiChat;
  Url base;
  std::string model;
  std::string key_variable;  // empty: no key is sent
  bool allow_plain_http = false;
  // kCommand
  std::vector<std::string> argv;
  // kMailbox, kReplay
  std::filesystem::path path;

  Sampling sampling;
  Rates rates;
  std::optional<std::chrono::milliseconds> timeout;
  double weight = 1;  // in an ensemble
};

/// Error kInvalidArgument names the wrong part and the valid values. A provider's key is sent only
/// to the provider's own base URL; for other base URLs, key=NAME must name a key.
Result<ModelSpec> ParseModelSpec(std::string_view text);

/// Parses all of `texts`, in order.
Result<std::vector<ModelSpec>> ParseModelSpecs(const std::vector<std::string>& texts);

/// The providers' names, for messages and help.
std::string ProviderNames();

}  // namespace cupel::llm
