// SPDX-License-Identifier: Apache-2.0
#include "llm/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parse_number.h"
#include "base/words.h"

namespace cupel::llm {
namespace {

struct Known {
  std::string_view name;
  WireFormat format;
  std::string_view base;
  std::string_view key;
};

constexpr Known kServices[] = {
    {"anthropic", WireFormat::kAnthropic, "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY"},
    {"openai", WireFormat::kOpenAiResponses, "https://api.openai.com/v1", "OPENAI_API_KEY"},
    {"openai-chat", WireFormat::kOpenAiChat, "https://api.openai.com/v1", "OPENAI_API_KEY"},
    {"gemini", WireFormat::kGemini, "https://generativelanguage.googleapis.com/v1beta",
     "GEMINI_API_KEY"},
    {"deepseek", WireFormat::kOpenAiChat, "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"},
    {"openrouter", WireFormat::kOpenAiChat, "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"},
    {"together", WireFormat::kOpenAiChat, "https://api.together.xyz/v1", "TOGETHER_API_KEY"},
    {"vllm", WireFormat::kOpenAiChat, "http://localhost:8000/v1", ""},
    {"llamacpp", WireFormat::kOpenAiChat, "http://localhost:8080/v1", ""},
    {"ollama", WireFormat::kOpenAiChat, "http://localhost:11434/v1", ""},
};

tl::unexpected<Error> Bad(std::string message, std::string remedy) {
  return Fail(ErrorCode::kInvalidArgument, "invalid model: " + std::move(message),
              std::move(remedy));
}

Result<double> Number(std::string_view key, std::string_view text, double least, double most) {
  const auto value = ParseNumber<double>(text);
  if (value && *value >= least && *value <= most) return *value;
  return Bad(fmt::format("{}={}", key, Shown(text, 40)),
             fmt::format("it must be a number from {} to {}", least, most));
}

Result<int64_t> Count(std::string_view key, std::string_view text, int64_t least) {
  constexpr int64_t kMost = 1'000'000'000;
  const auto value = ParseNumber<int64_t>(text);
  if (value && *value >= least && *value <= kMost) return *value;
  return Bad(fmt::format("{}={}", key, Shown(text, 40)),
             fmt::format("it must be a whole number from {} to {}", least, kMost));
}

Result<std::string> Word(std::string_view key, std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':' || c == '/';
  });
  if (text.empty() || text.size() > 100 || !plain) {
    return Bad(fmt::format("{}={}", key, Shown(text, 40)),
               "it must be 1 to 100 letters, digits and _-.:/");
  }
  return std::string(text);
}

Status SetThinking(std::string_view value, Sampling& sampling) {
  if (value == "adaptive") {
    sampling.thinking_tokens = kAdaptiveThinking;
  } else if (value == "off") {
    sampling.thinking_tokens = 0;
  } else {
    TRY_ASSIGN(sampling.thinking_tokens, Count("thinking", value, 1));
  }
  return {};
}

Status SetOption(std::string_view key, std::string_view value, ModelSpec& spec) {
  if (key == "temperature") {
    TRY_ASSIGN(spec.sampling.temperature, Number(key, value, 0, 2));
  } else if (key == "effort") {
    TRY_ASSIGN(spec.sampling.effort, Word(key, value));
  } else if (key == "thinking") {
    TRY(SetThinking(value, spec.sampling));
  } else if (key == "max_tokens") {
    TRY_ASSIGN(spec.sampling.max_tokens, Count(key, value, 1));
  } else if (key == "seed") {
    TRY_ASSIGN(spec.sampling.seed, Count(key, value, 0));
  } else if (key == "weight") {
    TRY_ASSIGN(spec.weight, Number(key, value, 1e-3, 1e3));
  } else if (key == "rpm") {
    TRY_ASSIGN(spec.rates.requests_a_minute, Count(key, value, 1));
  } else if (key == "tpm") {
    TRY_ASSIGN(spec.rates.tokens_a_minute, Count(key, value, 1));
  } else if (key == "at_once") {
    TRY_ASSIGN(spec.rates.at_once, Count(key, value, 1));
  } else if (key == "timeout") {
    TRY_ASSIGN(const double seconds, Number(key, value, 0.001, 604800));
    spec.timeout = std::chrono::milliseconds(static_cast<int64_t>(std::ceil(seconds * 1000)));
  } else if (key == "key") {
    TRY_ASSIGN(spec.key_variable, Word(key, value));
  } else if (key == "name") {
    TRY_ASSIGN(spec.name, Word(key, value));
  } else if (key == "http") {
    if (value != "plain") return Bad("the option http", "the only value is http=plain");
    spec.allow_plain_http = true;
  } else {
    return Bad(fmt::format("there is no option \"{}\"", Shown(key, 40)),
               "options are temperature, effort, thinking, max_tokens, seed, weight, rpm, tpm, "
               "at_once, timeout, key, name and http");
  }
  return {};
}

/// Removes "@a=b,c=d" from the end of `text` and returns it without the @; empty if there is none.
/// Names of models may contain an @. In a command, the options are a separate word.
std::string_view CutOptions(std::string_view& text, bool own_word) {
  const size_t at = text.rfind('@');
  if (at == std::string_view::npos) return {};
  if (own_word && (at == 0 || text[at - 1] != ' ')) return {};
  const std::string_view options = text.substr(at + 1);
  const size_t equals = options.find('=');
  const bool named = equals != std::string_view::npos && equals > 0 &&
                     std::ranges::all_of(options.substr(0, equals),
                                         [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  if (!named || options.find(' ') != std::string_view::npos) return {};
  text = text.substr(0, own_word ? at - 1 : at);
  return options;
}

Status SetOptions(std::string_view options, ModelSpec& spec) {
  while (!options.empty()) {
    const size_t end = std::min(options.find(','), options.size());
    const std::string_view option = options.substr(0, end);
    options.remove_prefix(std::min(end + 1, options.size()));
    const size_t equals = option.find('=');
    if (equals == std::string_view::npos) {
      return Bad(fmt::format("the option \"{}\" has no value", Shown(option, 40)),
                 "write options as @NAME=VALUE,NAME=VALUE");
    }
    TRY(SetOption(option.substr(0, equals), option.substr(equals + 1), spec));
  }
  return {};
}

/// The end of the URL at the start of "https://host:8000/v1:model": the first colon after the
/// scheme that does not begin a port.
size_t UrlEnd(std::string_view text) {
  const size_t scheme = text.find("://");
  size_t at = scheme == std::string_view::npos ? 0 : scheme + 3;
  if (at < text.size() && text[at] == '[') at = std::min(text.find(']', at), text.size());
  size_t colon = text.find(':', at);
  const size_t slash = text.find('/', at);
  if (colon == std::string_view::npos || colon > slash) return text.find(':', slash);
  size_t digits = colon + 1;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  const bool port =
      digits > colon + 1 && digits < text.size() && (text[digits] == '/' || text[digits] == ':');
  if (port) colon = text.find(':', digits);
  return colon;
}

Status SetService(std::string_view provider, std::string_view rest, ModelSpec& spec) {
  const auto* known = std::ranges::find(kServices, provider, &Known::name);
  if (known == std::end(kServices)) {
    return Bad(fmt::format("there is no provider \"{}\"", Shown(provider, 40)),
               "providers are " + ProviderNames());
  }
  spec.format = known->format;
  spec.key_variable = known->key;
  std::string_view base = known->base;
  if (rest.starts_with('+')) {
    rest.remove_prefix(1);
    const size_t scheme = rest.find("://");
    if (scheme != std::string_view::npos) {
      const size_t slash = rest.find('/', scheme + 3);
      if (rest.substr(0, slash).find('@') != std::string_view::npos) {
        return Bad("the base URL has a user name, or an @ before its path",
                   "put keys into the environment, and give the URL a path (/v1)");
      }
    }
    const size_t end = UrlEnd(rest);
    if (end == std::string_view::npos) {
      return Bad("no model follows the base URL", "write PROVIDER+URL:MODEL");
    }
    base = rest.substr(0, end);
    rest = rest.substr(end);
    spec.key_variable.clear();
  }
  TRY_ASSIGN(spec.base, ParseUrl(base));
  rest.remove_prefix(1);  // the colon
  const bool plain = std::ranges::all_of(rest, [](char c) { return c > 0x20 && c < 0x7f; });
  if (rest.empty() || rest.size() > 200 || !plain) {
    return Bad(fmt::format("\"{}\" is not a model name", Shown(rest, 40)),
               "write PROVIDER:MODEL, with the provider's name for the model");
  }
  spec.model = rest;
  return {};
}

Status SetLocal(std::string_view rest, ModelSpec& spec) {
  rest.remove_prefix(1);
  if (spec.kind == ProviderKind::kCommand) {
    TRY_ASSIGN(spec.argv, SplitWords(rest));
    if (spec.argv.empty()) return Bad("no program is given", "write command:PROGRAM ARGUMENTS");
    spec.name = "command:" + std::filesystem::path(spec.argv[0]).filename().string();
    return {};
  }
  if (rest.empty()) return Bad("no file or folder is given", "write mailbox:FOLDER or replay:FILE");
  spec.path = rest;
  return {};
}

}  // namespace

std::string ProviderNames() {
  std::string names;
  for (const Known& known : kServices) names += fmt::format("{}, ", known.name);
  return names + "command, mailbox and replay";
}

Result<ModelSpec> ParseModelSpec(std::string_view text) {
  const size_t end = text.find_first_of(":+");
  if (end == std::string_view::npos || end == 0 || text.size() > 4096) {
    return Bad(fmt::format("\"{}\" has no provider", Shown(text, 60)),
               "write PROVIDER:MODEL; providers are " + ProviderNames());
  }
  ModelSpec spec;
  spec.provider = text.substr(0, end);
  if (spec.provider == "command") spec.kind = ProviderKind::kCommand;
  if (spec.provider == "mailbox") spec.kind = ProviderKind::kMailbox;
  if (spec.provider == "replay") spec.kind = ProviderKind::kReplay;
  const std::string_view options = CutOptions(text, spec.kind == ProviderKind::kCommand);
  if (text.size() <= end) return Bad("there is nothing before the options", "write PROVIDER:MODEL");
  spec.name = text;
  std::string_view rest = text.substr(end);
  if (spec.kind == ProviderKind::kService) {
    TRY(SetService(spec.provider, rest, spec));
  } else {
    TRY(SetLocal(rest, spec));
  }
  TRY(SetOptions(options, spec));
  if (!spec.sampling.max_tokens) spec.sampling.max_tokens = 16384;
  return spec;
}

Result<std::vector<ModelSpec>> ParseModelSpecs(const std::vector<std::string>& texts) {
  std::vector<ModelSpec> specs;
  for (const std::string& text : texts) {
    TRY_ASSIGN(ModelSpec spec, ParseModelSpec(text));
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace cupel::llm
