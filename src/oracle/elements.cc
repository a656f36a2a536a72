// SPDX-License-Identifier: Apache-2.0
#include "oracle/elements.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "oracle/reply.h"
#include "os/mapped_file.h"

namespace cupel::oracle {
namespace {

constexpr const char* kWho = "oracle.py";
constexpr size_t kLongestName = 96;
constexpr size_t kMostNumbers = 1 << 16;
constexpr uint64_t kMostArguments = 4096;
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

/// Takes the residues of `count` elements from the bytes.
Result<FieldResults::Residues> ReadResidues(const Json& count, std::span<const std::byte>& bytes) {
  if (!count.is_number_unsigned() || count.get<uint64_t>() > bytes.size()) {
    return InvalidReply(kWho, "there is no number of elements");
  }
  const size_t elements = count.get<size_t>(), size = elements * sizeof(uint32_t);
  if (bytes.size() / kModuli < size) return InvalidReply(kWho, "the file is too short");
  FieldResults::Residues all;
  for (std::vector<uint32_t>& residues : all) {
    residues.resize(elements);
    std::memcpy(residues.data(), bytes.data(), size);
    bytes = bytes.subspan(size);
  }
  return all;
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
  auto bytes = mapping.bytes();
  TRY_ASSIGN(const Json* counts, JsonArray(reply, "counts", kWho));
  for (const Json& json : *counts) {
    auto& output = results.outputs.emplace_back();
    if (json.is_null()) continue;
    TRY_ASSIGN(output, ReadResidues(json, bytes));
  }
  TRY_ASSIGN(const Json* arguments, JsonArray(reply, "arguments", kWho));
  for (const Json& json : *arguments) {
    const auto index = json.find("index"), count = json.find("count");
    if (index == json.end() || count == json.end() || !index->is_number_unsigned() ||
        index->get<uint64_t>() > kMostArguments) {
      return InvalidReply(kWho, "an argument has no index");
    }
    TRY_ASSIGN(auto residues, ReadResidues(*count, bytes));
    results.arguments.emplace_back(index->get<int>(), std::move(residues));
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
