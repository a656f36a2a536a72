// SPDX-License-Identifier: Apache-2.0
#include "llm/retry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/parse_number.h"

namespace cupel::llm {
namespace {

using std::chrono::milliseconds;

constexpr double kMaxSeconds = 86400 * 365.0;

std::string Lower(std::string_view text) {
  std::string lower(text.substr(0, 4096));
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

template <size_t N>
bool Mentions(const std::string& text, const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(words,
                             [&](std::string_view w) { return text.find(w) != std::string::npos; });
}

/// Services do not use standard texts for these errors; these are texts in use.
constexpr std::array<std::string_view, 7> kTooLong = {
    "context_length",     "context length",    "context window", "maximum context",
    "prompt is too long", "input token count", "too many tokens"};
constexpr std::array<std::string_view, 4> kNoMoney = {"insufficient_quota", "credit balance",
                                                      "billing", "insufficient balance"};
constexpr std::array<std::string_view, 9> kTransient = {
    "overloaded", "rate_limit",  "rate limit",         "server_error", "api_error",
    "timeout",    "unavailable", "resource_exhausted", "internal"};

bool IsTransientStatus(int status) {
  return status == 408 || status == 409 || status == 425 || status == 429 ||
         (status >= 500 && status != 501 && status != 505);
}

/// ErrorCode and remedy of an error for which retries do not help.
std::pair<ErrorCode, std::string> Permanent(int status, const std::string& said,
                                            std::string_view key) {
  if (status == 402 || Mentions(said, kNoMoney)) {
    return {ErrorCode::kEnvironment, "add credit to the provider's account, or use another model"};
  }
  if (status == 401 || status == 403) {
    return {ErrorCode::kEnvironment,
            key.empty() ? std::string("name the variable that has the key with the option key=NAME")
                        : fmt::format("check the key in {} and its permissions", key)};
  }
  if (status == 404 || status == 405) {
    return {ErrorCode::kNotFound, "check the model's name and the base URL"};
  }
  if (status == 413 || Mentions(said, kTooLong)) {
    return {ErrorCode::kInvalidArgument,
            "shorten the prompt (fewer examples), or use a model with a longer context"};
  }
  if (status >= 300 && status < 400) {
    return {ErrorCode::kInvalidArgument,
            "redirects are not followed: give the base URL of the target"};
  }
  return {ErrorCode::kInvalidArgument,
          "change the option that the message names, or use another model"};
}

/// "06 Nov 1994 08:49:37 GMT" after an optional weekday.
std::optional<std::time_t> ParseHttpDate(std::string_view text) {
  if (const size_t comma = text.find(','); comma != std::string_view::npos) {
    text.remove_prefix(comma + 1);
  }
  while (text.starts_with(' ')) text.remove_prefix(1);
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const auto number = [text](size_t at, size_t length) {
    return ParseNumber<int>(text.substr(at, length)).value_or(-1);
  };
  if (text.size() != 24 || text.substr(20) != " GMT") return std::nullopt;
  const size_t month = kMonths.find(text.substr(3, 3));
  if (month == std::string_view::npos || month % 3 != 0) return std::nullopt;
  std::tm parts{};
  parts.tm_mday = number(0, 2);
  parts.tm_mon = static_cast<int>(month / 3);
  parts.tm_year = number(7, 4) - 1900;
  parts.tm_hour = number(12, 2);
  parts.tm_min = number(15, 2);
  parts.tm_sec = number(18, 2);
  const bool sound = parts.tm_mday > 0 && parts.tm_year >= 0 && parts.tm_hour >= 0 &&
                     parts.tm_min >= 0 && parts.tm_sec >= 0;
  if (!sound) return std::nullopt;
  return timegm(&parts);
}

}  // namespace

Failure Classify(const ServiceError& error, std::string_view service, std::string_view key) {
  const std::string said = Lower(error.type + " " + error.message);
  const std::string status = error.status == 0 ? "" : fmt::format(" with status {}", error.status);
  const std::string type = error.type.empty() ? "" : fmt::format(" ({})", Shown(error.type, 60));
  const std::string message = error.message.empty() ? "" : ": " + Shown(error.message);
  Failure failure;
  failure.error.message = fmt::format("{} answered{}{}{}", service, status, type, message);
  failure.retry_after = error.retry_after;
  const bool transient =
      error.status == 0 ? Mentions(said, kTransient) : IsTransientStatus(error.status);
  failure.retry = transient && !Mentions(said, kNoMoney) && !Mentions(said, kTooLong);
  if (failure.retry) {
    failure.error.code = ErrorCode::kIo;
    failure.error.remedy = "wait and try again, or ask fewer questions at once (at_once=, rpm=)";
  } else {
    std::tie(failure.error.code, failure.error.remedy) = Permanent(error.status, said, key);
  }
  return failure;
}

milliseconds Backoff(const RetryPolicy& policy, int next, double unit,
                     std::optional<milliseconds> retry_after) {
  const int doublings = std::clamp(next - 2, 0, 30);
  const double full = std::min(static_cast<double>(policy.first.count()) * (1u << doublings),
                               static_cast<double>(policy.longest.count()));
  const milliseconds own(static_cast<int64_t>(full * (0.5 + unit / 2)));
  return std::max(own, retry_after.value_or(milliseconds(0)));
}

std::optional<milliseconds> ParseRetryAfter(std::string_view text, std::time_t now) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  if (const auto seconds = ParseNumber<double>(text)) {
    if (!(*seconds >= 0)) return std::nullopt;
    return milliseconds(static_cast<int64_t>(std::min(*seconds, kMaxSeconds) * 1000));
  }
  const auto date = ParseHttpDate(text);
  if (!date) return std::nullopt;
  const double left = std::clamp(std::difftime(*date, now), 0.0, kMaxSeconds);
  return milliseconds(static_cast<int64_t>(left * 1000));
}

}  // namespace cupel::llm
