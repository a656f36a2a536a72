// SPDX-License-Identifier: Apache-2.0
#include "llm/prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "llm/keys.h"
#include "os/files.h"
#include "os/folders.h"

namespace cupel::llm {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMaxBytes = 4u << 20;
constexpr double kMaxPrice = 1e6;  // dollars per million tokens; a higher price is a mistake

Result<double> ReadPrice(const Json& entry, const char* key, std::string_view what) {
  TRY_ASSIGN(const double value, JsonNumber(entry, key, what));
  if (!(value >= 0 && value <= kMaxPrice)) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}.{} is {}", what, key, value),
                "give a price in dollars per million tokens, 0 or more");
  }
  return value;
}

}  // namespace

NanoUsd Price::Of(const Usage& usage) const {
  const int64_t hits = std::min(usage.cached_tokens, usage.input_tokens);
  const auto fresh = static_cast<double>(usage.input_tokens - hits);
  // One dollar per million tokens is 1000 nano-dollars per token.
  const double nano = 1000 * (fresh * input + static_cast<double>(hits) * cached +
                              static_cast<double>(usage.output_tokens) * output);
  return static_cast<NanoUsd>(std::ceil(std::clamp(nano, 0.0, 9e18)));
}

Result<Prices> Prices::Parse(const Json& json, std::string_view what) {
  Prices prices;
  TRY_ASSIGN(const Json* models, JsonObject(json, "models", what));
  for (const auto& [name, entry] : models->items()) {
    const std::string where = fmt::format("{}: \"{}\"", what, Shown(name, 100));
    Price price;
    TRY_ASSIGN(price.input, ReadPrice(entry, "input", where));
    TRY_ASSIGN(price.output, ReadPrice(entry, "output", where));
    price.cached = price.input;
    if (entry.contains("cached")) {
      TRY_ASSIGN(price.cached, ReadPrice(entry, "cached", where));
    }
    prices.entries_.push_back({name, price});
  }
  return prices;
}

Result<Prices> Prices::Load() {
  std::vector<fs::path> files;
  if (const auto data = os::DataDir()) files.push_back(*data / "share" / "prices.json");
  if (const fs::path config = ConfigDir(); !config.empty()) {
    files.push_back(config / "prices.json");
  }
  return Load(files);
}

Result<Prices> Prices::Load(const std::vector<fs::path>& files) {
  Prices all;
  for (const fs::path& file : files) {
    const Result<std::string> text = os::ReadFile(file, kMaxBytes);
    if (!text && text.error().code == ErrorCode::kNotFound) continue;
    if (!text) return tl::unexpected(text.error());
    TRY_ASSIGN(const Json json, ParseJson(*text, file.string()));
    TRY_ASSIGN(Prices some, Parse(json, file.string()));
    std::ranges::move(some.entries_, std::back_inserter(all.entries_));
  }
  return all;
}

std::optional<Price> Prices::Find(std::string_view model) const {
  const Entry* best = nullptr;
  size_t best_length = 0;
  for (const Entry& entry : entries_) {
    std::string_view name = entry.name;
    const bool open = name.ends_with('*');
    if (open) name.remove_suffix(1);
    if (open ? !model.starts_with(name) : model != name) continue;
    const size_t length = name.size() + (open ? 0 : 1);
    if (best == nullptr || length >= best_length) {
      best = &entry;
      best_length = length;
    }
  }
  if (best == nullptr) return std::nullopt;
  return best->price;
}

}  // namespace cupel::llm
