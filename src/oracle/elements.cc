// SPDX-License-Identifier: Apache-2.0
#include "oracle/elements.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "oracle/reply.h"
#include "os/mapped_file.h"

namespace cupel::oracle {
namespace {

constexpr const char* kWho = "oracle.py";
constexpr size_t kLongestName = 96;
constexpr size_t kMostNumbers = 1 << 16;
constexpr uint64_t kAboveModuli = 1u << 29;

Result<FieldResults::Number> ReadNumber(const Json& json) {
  FieldResults::Number number;
  TRY_ASSIGN(const std::string value, JsonString(json, "value", kWho));
  number.value = std::strtod(value.c_str(), nullptr);
  TRY_ASSIGN(const Json* residues, JsonArray(json, "residues", kWho));
  if (residues->size() != kModuli) return InvalidReply(kWho, "a number has too few residues");
  for (size_t i = 0; i < kModuli; ++i) {
    const Json& residue = (*residues)[i];
    if (!residue.is_number_unsigned() || residue.get<uint64_t>() >= kAboveModuli) {
      return InvalidReply(kWho, "a residue is no residue");
    }
    number.residues[i] = residue.get<uint32_t>();
  }
  return number;
}

}  // namespace

Result<FieldResults> ReadElements(const Json& reply) {
  FieldResults results;
  if (reply.contains("not_covered")) {
    TRY_ASSIGN(results.not_covered, ReplyText(reply, "not_covered", kWho));
    return results;
  }
  TRY_ASSIGN(const std::string file, JsonString(reply, "file", kWho));
  TRY_ASSIGN(const os::MappedFile mapping, os::MappedFile::Open(file));
  std::error_code ignored;
  std::filesystem::remove(file, ignored);  // the mapping keeps the bytes
  const auto bytes = mapping.bytes();
  size_t at = 0;
  TRY_ASSIGN(const Json* counts, JsonArray(reply, "counts", kWho));
  for (const Json& json : *counts) {
    auto& output = results.outputs.emplace_back();
    if (json.is_null()) continue;
    if (!json.is_number_unsigned() || json.get<uint64_t>() > bytes.size()) {
      return InvalidReply(kWho, "an output has no number of elements");
    }
    const size_t count = json.get<size_t>(), size = count * sizeof(uint32_t);
    if ((bytes.size() - at) / kModuli < size) return InvalidReply(kWho, "the file is too short");
    output.emplace();
    for (std::vector<uint32_t>& residues : *output) {
      residues.resize(count);
      std::memcpy(residues.data(), bytes.data() + at, size);
      at += size;
    }
  }
  TRY_ASSIGN(const Json* functions, JsonArray(reply, "functions", kWho));
  for (const Json& name : *functions) {
    if (!name.is_string() || name.get<std::string>().size() > kLongestName) {
      return InvalidReply(kWho, "a function has no name");
    }
    results.functions.push_back(name.get<std::string>());
  }
  TRY_ASSIGN(const Json* numbers, JsonArray(reply, "numbers", kWho));
  if (numbers->size() > kMostNumbers) return InvalidReply(kWho, "there are too many numbers");
  for (const Json& json : *numbers) {
    TRY_ASSIGN(results.numbers.emplace_back(), ReadNumber(json));
  }
  return results;
}

}  // namespace cupel::oracle
