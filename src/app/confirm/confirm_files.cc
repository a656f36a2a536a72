// SPDX-License-Identifier: Apache-2.0
#include "app/confirm/confirm_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "judge/compare.h"
#include "os/fd.h"
#include "os/files.h"
#include "os/mapped_file.h"

namespace cupel::app {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kAlignment = 256;

/// Assigns each tensor a place in the data file, and describes the arguments as JSON.
class Layout {
 public:
  Json Node(const task::Value& value) {
    return std::visit([this](const auto& v) { return Describe(v); }, value.data);
  }
  const std::vector<std::pair<int64_t, std::span<const std::byte>>>& parts() const {
    return parts_;
  }

 private:
  static Json Describe(const task::None&) { return Json{{"kind", "none"}}; }
  static Json Describe(bool value) { return Json{{"kind", "bool"}, {"value", value}}; }
  static Json Describe(int64_t value) {
    return Json{{"kind", "int"}, {"value", std::to_string(value)}};
  }
  static Json Describe(double value) {  // exact, for Python's float.fromhex
    return Json{{"kind", "float"}, {"value", fmt::format("{:a}", value)}};
  }
  static Json Describe(const std::string& value) {
    return Json{{"kind", "string"}, {"value", value}};
  }
  Json Describe(const std::vector<task::Value>& values) {
    Json items = Json::array();
    for (const task::Value& value : values) items.push_back(Node(value));
    return Json{{"kind", "tuple"}, {"items", std::move(items)}};
  }
  Json Describe(const task::Tensor& tensor) {
    const int64_t at = end_;
    parts_.emplace_back(at, tensor.storage);
    const auto bytes = static_cast<int64_t>(tensor.storage.size());
    end_ = (end_ + bytes + kAlignment - 1) / kAlignment * kAlignment;
    return Json{{"kind", "tensor"},        {"dtype", std::string(Name(tensor.dtype))},
                {"shape", tensor.shape},   {"strides", tensor.strides},
                {"offset", tensor.offset}, {"at", at},
                {"bytes", bytes}};
  }

  std::vector<std::pair<int64_t, std::span<const std::byte>>> parts_;
  int64_t end_ = 0;
};

Status WriteAt(int fd, int64_t at, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return Fail(ErrorCode::kIo,
                  fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)),
                  "free disk space, or set TMPDIR to a folder with more space");
    }
    at += n;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

/// Maps the file of one result and makes `tensor` refer to its bytes. Returns the reason if the
/// result is invalid.
std::optional<records::Reason> MapResult(const Json& reported, const fs::path& folder, size_t index,
                                         os::MappedFile& file, task::Tensor& tensor) {
  const std::string where = fmt::format("output {}", index);
  const auto broken = [&](std::string why) {
    return records::Reason{"wrong_return", std::move(why), where};
  };
  if (!reported.is_object()) return broken("the result is not a tensor");
  const auto dtype = JsonString(reported, "dtype", "result");
  const auto shape = JsonIntList(reported, "shape", "result");
  const auto name = JsonString(reported, "file", "result");
  if (!dtype || !shape || !name || name->find('/') != std::string::npos) {
    return broken("the description of the result is invalid");
  }
  const auto known = DTypeFromName(*dtype);
  if (!known)
    return broken(fmt::format("the result has the unknown type {}", dtype->substr(0, 40)));
  auto mapped = os::MappedFile::Open(folder / *name);
  if (!mapped) return broken("the result was not written: " + mapped.error().message);
  file = std::move(*mapped);
  int64_t bytes = SizeOf(*known);
  for (const int64_t size : *shape) {
    if (size < 0 || shape->size() > task::kMaxDims || __builtin_mul_overflow(bytes, size, &bytes)) {
      return broken("the result has an impossible shape");
    }
  }
  if (bytes != static_cast<int64_t>(file.bytes().size())) {
    return broken("the size of the result does not match its shape");
  }
  tensor.dtype = *known;
  tensor.shape = *shape;
  tensor.strides = task::ContiguousStrides(tensor.shape);
  tensor.storage = file.bytes();
  return std::nullopt;
}

}  // namespace

Status WriteArguments(const std::vector<task::Value>& args, const fs::path& base) {
  Layout layout;
  Json nodes = Json::array();
  for (const task::Value& value : args) nodes.push_back(layout.Node(value));
  const fs::path data = base.string() + ".bin", description = base.string() + ".json";
  const os::Fd fd(open(data.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd) {
    return Fail(ErrorCode::kIo,
                fmt::format("cannot write {}: {}", data.string(), std::strerror(errno)));
  }
  for (const auto& [at, bytes] : layout.parts()) TRY(WriteAt(fd.get(), at, bytes, data));
  TRY(os::WriteFileAtomically(description, DumpJson(nodes)));
  std::error_code error;  // readable by all, since the child may run as another user
  fs::permissions(data, static_cast<fs::perms>(0644), error);
  fs::permissions(description, static_cast<fs::perms>(0644), error);
  return {};
}

std::vector<records::Reason> JudgeResults(const Json& reported, const fs::path& folder,
                                          const task::Case& wanted) {
  std::vector<records::Reason> reasons;
  const auto results = JsonArray(reported, "results", "result");
  const auto is_tuple = JsonBool(reported, "is_tuple", "result");
  if (!results || !is_tuple) return {{"wrong_return", "the kernel returned nothing", ""}};
  if (*is_tuple != wanted.returns_tuple || (*results)->size() != wanted.outputs.size()) {
    return {{"wrong_return",
             fmt::format("the kernel returned {}, expected {}",
                         *is_tuple ? fmt::format("a tuple of {}", (*results)->size()) : "a tensor",
                         wanted.returns_tuple ? fmt::format("a tuple of {}", wanted.outputs.size())
                                              : "a tensor"),
             ""}};
  }
  for (size_t i = 0; i < wanted.outputs.size(); ++i) {
    if (wanted.outputs[i].is_none) continue;
    os::MappedFile file;
    task::Tensor got;
    if (auto reason = MapResult((**results)[i], folder, i, file, got)) {
      reasons.push_back(std::move(*reason));
      continue;
    }
    records::Comparison comparison = judge::Compare(got, wanted.outputs[i]);
    if (!comparison.ok) {
      reasons.push_back({comparison.code, comparison.message, fmt::format("output {}", i)});
    }
  }
  return reasons;
}

}  // namespace cupel::app
