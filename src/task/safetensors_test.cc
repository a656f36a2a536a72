// SPDX-License-Identifier: Apache-2.0
#include "task/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace cupel::task {
namespace {

/// A file's bytes with eight-byte alignment, like a mapping.
struct File {
  std::vector<uint64_t> words;
  size_t size = 0;
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words)).first(size); }
};

File Make(std::string header, size_t data_bytes, uint64_t claimed_header = 0) {
  while ((8 + header.size()) % 8 != 0) header += ' ';
  const uint64_t length = claimed_header != 0 ? claimed_header : header.size();
  File file;
  file.size = 8 + header.size() + data_bytes;
  file.words.resize(file.size / 8 + 1);
  std::memcpy(file.words.data(), &length, 8);
  std::memcpy(file.words.data() + 1, header.data(), header.size());
  auto* data = reinterpret_cast<unsigned char*>(file.words.data()) + 8 + header.size();
  for (size_t i = 0; i < data_bytes; ++i) data[i] = static_cast<unsigned char>(i);
  return file;
}

std::string ErrorOf(const File& file) {
  const auto parsed = ParseSafetensors(file.bytes(), "t");
  return parsed ? "" : parsed.error().message;
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const File file =
      Make(R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
           R"("b":{"dtype":"U8","shape":[4],"data_offsets":[24,28]}})",
           28);
  const auto parsed = ParseSafetensors(file.bytes(), "t");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->metadata.at("k"), "v");
  const Tensor& a = parsed->tensors.at("a");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(a.IsContiguous());
  EXPECT_EQ(std::to_integer<int>(parsed->tensors.at("b").storage[0]), 24);
}

TEST(Safetensors, ReadsFloat8) {
  const File file = Make(R"({"a":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]},)"
                         R"("b":{"dtype":"F8_E5M2","shape":[2],"data_offsets":[3,5]}})",
                         5);
  const auto parsed = ParseSafetensors(file.bytes(), "t");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->tensors.at("a").dtype, DType::kF8E4M3);
  EXPECT_EQ(parsed->tensors.at("b").dtype, DType::kF8E5M2);
}

TEST(Safetensors, ReadsAScalarAndAnEmptyTensor) {
  const File file = Make(R"({"s":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                         R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[8,8]}})",
                         8);
  const auto parsed = ParseSafetensors(file.bytes(), "t");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->tensors.at("s").numel(), 1);
  EXPECT_EQ(parsed->tensors.at("e").numel(), 0);
}

TEST(Safetensors, RejectsWrongHeaderLengths) {
  EXPECT_NE(ErrorOf(Make("{}", 0, uint64_t{1} << 62)), "");
  EXPECT_NE(ErrorOf(Make("{}", 0, 1000)), "");
  File tiny;
  tiny.words.resize(1);
  tiny.size = 4;
  EXPECT_NE(ErrorOf(tiny), "");
  EXPECT_NE(ErrorOf(Make("[1]", 0)), "");
  EXPECT_NE(ErrorOf(Make("{\"a\":", 0)), "");
}

TEST(Safetensors, RejectsExtentsThatDoNotMatch) {
  const auto with = [](const char* entry, size_t data) {
    return ErrorOf(Make(std::string("{\"a\":") + entry + "}", data));
  };
  EXPECT_EQ(with(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 8), "");
  EXPECT_NE(with(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 7), "");   // truncated
  EXPECT_NE(with(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 16), "");  // a hole
  EXPECT_NE(with(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})", 8), "");
  EXPECT_NE(with(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})", 8), "");
  EXPECT_NE(with(R"({"dtype":"C64","shape":[1],"data_offsets":[0,8]})", 8), "");
  EXPECT_NE(with(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})", 8), "");
  EXPECT_NE(with(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})", 8), "");
  EXPECT_NE(with(R"({"dtype":"F32","shape":"2","data_offsets":[0,8]})", 8), "");
  // 2^62 * 4 elements overflow to zero.
  EXPECT_NE(with(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})", 0), "");
}

TEST(Safetensors, RejectsOverlap) {
  EXPECT_NE(ErrorOf(Make(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                         R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                         12)),
            "");
}

TEST(Safetensors, RejectsMisalignedData) {
  EXPECT_NE(ErrorOf(Make(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                         R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                         6)),
            "");
}

}  // namespace
}  // namespace cupel::task
