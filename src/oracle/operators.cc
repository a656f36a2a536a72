// SPDX-License-Identifier: Apache-2.0
#include "oracle/operators.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "oracle/python.h"
#include "oracle/torch_child.h"
#include "os/fd.h"
#include "os/files.h"
#include "os/temp_dir.h"
#include "plan/json_parts.h"
#include "plan/operator_json.h"

namespace cupel::oracle {
namespace {

namespace fs = std::filesystem;
using plan::Operator;
using plan::View;

constexpr char kWhat[] = "operators.py";
constexpr size_t kMaxSchemas = 4u << 20;
constexpr int64_t kMostBytes = int64_t{8} << 30;        // of an operator's tensors
constexpr std::chrono::seconds kOperatorDeadline{120};  // of one operator

/// The bytes [begin, end) of a buffer that an operator's views cover, and where they are in the
/// file.
struct Extent {
  int64_t begin = INT64_MAX, end = 0;
  int64_t at = 0;
  int64_t size() const { return end - begin; }
};

/// By buffer. A view of no elements covers nothing, but its buffer has a range.
std::map<int, Extent> ExtentsOf(const Operator& work) {
  constexpr int64_t kAlignment = 64;  // of ranges: views keep their alignment
  std::map<int, Extent> ranges;
  plan::ForEachView(work, [&](const View& view, bool /*is_written*/) {
    const int64_t first = view.address.offset;
    int64_t last = 0;
    bool is_empty = false;
    for (size_t i = 0; i < view.shape.size(); ++i) {
      is_empty |= view.shape[i] == 0;
      last += (view.shape[i] - 1) * view.strides[i];
    }
    Extent& range = ranges[view.address.buffer];
    range.begin = std::min(range.begin, first / kAlignment * kAlignment);
    range.end = std::max(range.end, is_empty ? first : first + (last + 1) * SizeOf(view.dtype));
  });
  int64_t at = 0;
  for (auto& [buffer, range] : ranges) {
    range.at = at;
    at += (range.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
  return ranges;
}

/// A file that this process and the child map.
class SharedFile {
 public:
  static Result<SharedFile> Create(const fs::path& path, int64_t bytes) {
    const auto fail = [&](const char* call, int code) {
      return Fail(ErrorCode::kIo,
                  fmt::format("{} {}: {}", call, path.string(), std::strerror(code)));
    };
    const os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (fd.get() < 0) return fail("open", errno);
    // Fails if there is no room. Without it, a write to the mapping would.
    const int code = ::posix_fallocate(fd.get(), 0, bytes);
    if (code != 0) return fail("allocate", code);
    void* data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
                        fd.get(), 0);
    if (data == MAP_FAILED) return fail("map", errno);
    return SharedFile(static_cast<std::byte*>(data), static_cast<size_t>(bytes));
  }
  SharedFile(SharedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  SharedFile& operator=(SharedFile&&) = delete;
  ~SharedFile() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  std::byte* data() const { return data_; }

 private:
  SharedFile(std::byte* data, size_t size) : data_(data), size_(size) {}
  std::byte* data_;
  size_t size_;
};

class TorchOperators : public plan::OperatorRunner {
 public:
  explicit TorchOperators(OperatorOptions options) : options_(std::move(options)) {}

  Result<std::vector<std::string>> Schemas() override {
    const std::lock_guard lock(mutex_);
    if (!schemas_.empty()) return schemas_;
    TRY(FindInterpreter());
    TRY_ASSIGN(const std::string code,
               os::ReadFile(options_.script.parent_path() / "operator_rules.py", kMaxSchemas));
    const fs::path file =
        options_.cache.empty()
            ? fs::path()
            : options_.cache / ("operators-" + Sha256Hex(python_->identity + code).substr(0, 16));
    if (const auto text = file.empty() ? Result<std::string>() : os::ReadFile(file, kMaxSchemas);
        text && !text->empty()) {
      for (const std::string_view line : SplitLines(*text)) schemas_.emplace_back(line);
      return schemas_;
    }
    TRY_ASSIGN(const Json reply, Ask({{"op", "schemas"}}));
    TRY_ASSIGN(const Json* list, JsonArray(reply, "schemas", kWhat));
    std::string text;
    for (const Json& schema : *list) {
      if (!schema.is_string()) return Fail(ErrorCode::kIo, "operators.py sent no schemas");
      text += schemas_.emplace_back(schema.get<std::string>()) + "\n";
    }
    if (!file.empty()) {
      std::error_code error;
      fs::create_directories(options_.cache, error);
      (void)os::WriteFileAtomically(file, text);  // without the file, the next process asks again
    }
    return schemas_;
  }

  Result<Json> Describe(const Json& question) override {
    const std::lock_guard lock(mutex_);
    Json request = question;
    request["op"] = "describe";
    return Ask(std::move(request));
  }

  Result<std::string> Run(const Operator& work, const plan::Arithmetic& arithmetic,
                          const std::function<std::span<std::byte>(int)>& memory) override {
    const std::lock_guard lock(mutex_);
    std::map<int, Extent> ranges = ExtentsOf(work);
    int64_t bytes = 1;
    for (const auto& [buffer, range] : ranges) bytes = std::max(bytes, range.at + range.size());
    if (bytes > kMostBytes) return std::string("its tensors have more than 8 GiB");
    if (!folder_) {
      TRY_ASSIGN(folder_, CreateFolder());
    }
    const fs::path path = folder_->path() / "memory";
    TRY_ASSIGN(const SharedFile file, SharedFile::Create(path, bytes));
    Json places = Json::array();
    std::map<int, int> index;
    for (const auto& [buffer, range] : ranges) {
      index.emplace(buffer, static_cast<int>(places.size()));
      places.push_back(Json::array({range.at, range.size()}));
      Transfer(range, memory(buffer), file.data() + range.at, true);
    }
    Operator moved = work;
    plan::ForEachView(moved, [&](View& view, bool /*is_written*/) {
      view.address.offset -= ranges[view.address.buffer].begin;
      view.address.buffer = index[view.address.buffer];
    });
    Json request = plan::WriteOperator(moved);
    request["op"] = "run";
    request["in_float64"] = arithmetic.in_float64 || arithmetic.field != nullptr;
    if (arithmetic.field != nullptr) request["field"] = *arithmetic.field;
    request["file"] = path.string();
    request["ranges"] = std::move(places);
    const auto answer = Ask(std::move(request));
    if (!answer && answer.error().code == ErrorCode::kTimeout) {
      return fmt::format("it did not finish within {} s", kOperatorDeadline.count());
    }
    TRY_ASSIGN(const Json reply, answer);
    for (const char* problem : {"refused", "failure"}) {
      if (reply.contains(problem)) return JsonString(reply, problem, kWhat);
    }
    for (const auto& [buffer, range] : WrittenOf(work, ranges)) {
      Transfer(range, memory(buffer), file.data() + range.at, false);
    }
    return std::string();
  }

 private:
  static void Transfer(const Extent& range, std::span<std::byte> buffer, std::byte* file,
                       bool out) {
    const auto begin = static_cast<size_t>(range.begin);
    if (begin >= buffer.size()) return;
    const size_t size = std::min(static_cast<size_t>(range.size()), buffer.size() - begin);
    if (out) {
      std::memcpy(file, buffer.data() + begin, size);
    } else {
      std::memcpy(buffer.data() + begin, file, size);
    }
  }
  static std::map<int, Extent> WrittenOf(const Operator& work,
                                         const std::map<int, Extent>& ranges) {
    std::map<int, Extent> written;
    plan::ForEachView(work, [&](const View& view, bool is_written) {
      if (is_written) written.insert(*ranges.find(view.address.buffer));
    });
    return written;
  }
  static Result<os::TempDir> CreateFolder() {
    auto folder = os::TempDir::Create("/dev/shm");
    return folder ? std::move(folder) : os::TempDir::Create();
  }

  Status FindInterpreter() {
    if (python_) return {};
    TRY_ASSIGN(python_,
               FindPython(options_.python,
                          options_.cache.empty() ? fs::path() : options_.cache / "pythons.json",
                          options_.stop));
    return {};
  }

  /// Sends a request to the child, which it starts if needed.
  Result<Json> Ask(Json request) {
    if (!child_ || !child_->alive()) {
      TRY(FindInterpreter());
      ChildOptions options;
      options.python = python_->program;
      options.script = options_.script;
      options.deadline = kOperatorDeadline;
      options.threads = options_.threads;
      options.stop = options_.stop;
      TRY_ASSIGN(child_, TorchChild::Start(std::move(options)));
    }
    const int64_t id = ++last_id_;
    request["id"] = id;
    TRY(child_->Send(request));
    TRY_ASSIGN(auto reply, child_->Receive(id));
    if (reply) return std::move(*reply);
    const std::string reason = child_->ExitReason();
    child_.reset();
    return Fail(ErrorCode::kIo, "PyTorch ended while it executed an operator: " + reason);
  }

  const OperatorOptions options_;
  std::mutex mutex_;
  std::optional<Python> python_;
  std::unique_ptr<TorchChild> child_;
  std::optional<os::TempDir> folder_;
  std::vector<std::string> schemas_;
  int64_t last_id_ = 0;
};

}  // namespace

std::shared_ptr<plan::OperatorRunner> MakeOperatorRunner(OperatorOptions options) {
  return std::make_shared<TorchOperators>(std::move(options));
}

}  // namespace cupel::oracle
