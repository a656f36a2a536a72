// SPDX-License-Identifier: Apache-2.0
#include "llm/open.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/lanes.h"
#include "llm/command.h"
#include "llm/keys.h"
#include "llm/mailbox.h"
#include "llm/replay.h"
#include "llm/service.h"
#include "llm/transcript.h"

namespace cupel::llm {
namespace {

Result<std::unique_ptr<Provider>> OpenService(const ModelSpec& spec) {
  Service service;
  service.name = fmt::format("{} ({})", spec.provider, spec.base.host);
  service.format = spec.format;
  service.base = spec.base;
  service.model = spec.model;
  service.key_variable = spec.key_variable;
  service.allow_plain_http = spec.allow_plain_http;
  if (spec.timeout) {
    service.limits.total = *spec.timeout;
    service.limits.first_byte = *spec.timeout;
    service.limits.idle = std::min(service.limits.idle, *spec.timeout);
  }
  if (!spec.key_variable.empty()) {
    TRY_ASSIGN(service.key, FindKey(spec.key_variable));
  }
  return ServiceProvider::Create(std::move(service));
}

Result<std::unique_ptr<Provider>> OpenProvider(const ModelSpec& spec) {
  switch (spec.kind) {
    case ProviderKind::kService:
      return OpenService(spec);
    case ProviderKind::kCommand: {
      CommandOptions options;
      options.argv = spec.argv;
      if (spec.timeout) options.deadline = *spec.timeout;
      return CommandProvider(std::move(options));
    }
    case ProviderKind::kMailbox: {
      MailboxOptions options;
      options.folder = spec.path;
      options.deadline = spec.timeout;
      return MailboxProvider(std::move(options));
    }
    case ProviderKind::kReplay: {
      TRY_ASSIGN(const Recorded recorded, ReadTranscript(spec.path));
      return ReplayProvider(recorded.exchanges, spec.path.string());
    }
  }
  return Fail(ErrorCode::kInternal, "unknown kind of provider");
}

/// Identifies a provider for its rates.
std::string RatesKey(const ModelSpec& spec) {
  return spec.kind == ProviderKind::kService ? spec.base.Text() : spec.name;
}

Status Merge(const std::optional<int64_t>& from, std::optional<int64_t>& into, const char* option,
             const std::string& provider) {
  if (from && into && *from != *into) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is {} and also {} for {}", option, *into, *from, provider),
                "rates apply to all models of a provider: give them once");
  }
  if (from) into = from;
  return {};
}

/// The default limit: services reject many concurrent questions, and programs share this machine's
/// cores.
std::optional<int64_t> DefaultAtOnce(const ModelSpec& spec) {
  constexpr int64_t kService = 16;
  if (spec.kind == ProviderKind::kService) return kService;
  if (spec.kind != ProviderKind::kCommand) return std::nullopt;
  return static_cast<int64_t>(Cores());
}

Result<std::map<std::string, Rates>> MergeRates(const std::vector<ModelSpec>& specs) {
  std::map<std::string, Rates> all;
  for (const ModelSpec& spec : specs) {
    const std::string key = RatesKey(spec);
    Rates& rates = all[key];
    TRY(Merge(spec.rates.requests_a_minute, rates.requests_a_minute, "rpm", key));
    TRY(Merge(spec.rates.tokens_a_minute, rates.tokens_a_minute, "tpm", key));
    TRY(Merge(spec.rates.at_once, rates.at_once, "at_once", key));
  }
  for (const ModelSpec& spec : specs) {
    Rates& rates = all[RatesKey(spec)];
    if (!rates.at_once) rates.at_once = DefaultAtOnce(spec);
  }
  return all;
}

}  // namespace

Result<Models> OpenModels(const std::vector<ModelSpec>& specs, const OpenOptions& options) {
  TRY_ASSIGN(const auto rates, MergeRates(specs));
  Models models;
  std::map<std::string, Limiter*> limiters;
  for (const auto& [key, merged] : rates) {
    models.limiters.push_back(std::make_unique<Limiter>(merged));
    limiters[key] = models.limiters.back().get();
  }
  for (const ModelSpec& spec : specs) {
    std::unique_ptr<Provider> provider;
    if (options.replay != nullptr) {
      provider = ReplayProvider(*options.replay, "the recorded run");
    } else {
      TRY_ASSIGN(provider, OpenProvider(spec));
    }
    ClientParts parts;
    parts.name = spec.name;
    parts.sampling = spec.sampling;
    if (options.prices != nullptr) parts.price = options.prices->Find(spec.name);
    parts.budget = options.budget;
    parts.limiter = limiters[RatesKey(spec)];
    parts.sink = options.sink;
    parts.retry = options.retry;
    parts.seed = options.seed + models.clients.size();
    models.clients.push_back(std::make_unique<Client>(std::move(provider), std::move(parts)));
  }
  return models;
}

}  // namespace cupel::llm
