// SPDX-License-Identifier: Apache-2.0
#include "oracle/importer.h"

#include <fmt/format.h>

#include <optional>

#include "oracle/environment.h"
#include "oracle/load.h"
#include "oracle/python.h"
#include "oracle/torch_child.h"

namespace cupel::oracle {
namespace {

using std::chrono::milliseconds;

constexpr size_t kMaxFileText = 4u << 20;
constexpr size_t kMaxMessage = 2000;
constexpr char kImporter[] = "import_task.py";

/// The three files that an imported task has in addition to problem.py.
bool IsKnownFile(const std::string& name) {
  return name == "func_forward.py" || name == "config_forward.json" || name == "task.json";
}

Result<std::vector<std::string>> ShortTexts(const Json& reply, const char* key) {
  TRY_ASSIGN(const Json* list, JsonArray(reply, key, kImporter));
  std::vector<std::string> texts;
  for (const Json& text : *list) {
    if (text.is_string()) texts.push_back(text.get<std::string>().substr(0, kMaxMessage));
  }
  return texts;
}

Result<ImportOutcome> ReadImport(const Json& reply) {
  if (reply.contains("failure")) {
    TRY_ASSIGN(const std::string why, JsonString(reply, "failure", kImporter));
    return ImportOutcome(ImportRefusal{why.substr(0, kMaxMessage)});
  }
  Imported imported;
  TRY_ASSIGN(const Json* files, JsonObject(reply, "files", kImporter));
  for (const auto& [name, text] : files->items()) {
    if (!IsKnownFile(name) || !text.is_string() ||
        text.get_ref<const std::string&>().size() > kMaxFileText) {
      return Fail(ErrorCode::kInternal, fmt::format("{} wrote an unexpected file", kImporter));
    }
    imported.files.emplace_back(name, text.get<std::string>());
  }
  TRY_ASSIGN(imported.title, JsonString(reply, "title", kImporter));
  TRY_ASSIGN(const Json* sizes, JsonObject(reply, "sizes", kImporter));
  TRY_ASSIGN(const Json* reduced, JsonObject(reply, "reduced", kImporter));
  imported.sizes = *sizes;
  imported.reduced = *reduced;
  TRY_ASSIGN(imported.arguments, ShortTexts(reply, "arguments"));
  TRY_ASSIGN(imported.notes, ShortTexts(reply, "notes"));
  TRY_ASSIGN(imported.compared, JsonString(reply, "compared", kImporter));
  TRY_ASSIGN(imported.torch_version, JsonString(reply, "torch", kImporter));
  TRY_ASSIGN(imported.functional, JsonBool(reply, "functional", kImporter));
  TRY_ASSIGN(imported.elements, JsonNumber(reply, "elements", kImporter));
  TRY_ASSIGN(imported.flops, JsonNumber(reply, "flops", kImporter));
  return ImportOutcome(std::move(imported));
}

}  // namespace

struct Importer::Impl {
  ImportOptions options;
  std::optional<Python> python;
  std::unique_ptr<TorchChild> child;
  int64_t last_id = 0;

  Status EnsureChild();
  /// Returns nullopt if the child ended or did not answer in time; `why` gets the reason.
  Result<std::optional<Json>> Ask(Json request, std::string& why);
};

Status Importer::Impl::EnsureChild() {
  if (child && child->alive()) return {};
  child.reset();
  if (!python) {
    const auto memory = options.cache.empty() ? options.cache : options.cache / "pythons.json";
    TRY_ASSIGN(python, FindPython(options.python, memory, options.stop));
  }
  if (options.progress) options.progress(fmt::format("starting PyTorch ({})", python->program));
  TRY_ASSIGN(child, TorchChild::Start({python->program, options.script,
                                       StepDeadline(std::chrono::seconds(0)), options.progress, 0,
                                       options.stop}));
  return {};
}

/// The child checks the deadline between its steps. If one step runs on after the deadline, this
/// function ends the child.
Result<std::optional<Json>> Importer::Impl::Ask(Json request, std::string& why) {
  TRY(EnsureChild());
  const int64_t id = ++last_id;
  request["id"] = id;
  request["seconds"] = options.deadline.count();
  if (options.memory > 0) request["memory"] = options.memory;
  TRY(child->Send(request));
  const milliseconds patience = options.deadline * 5 / 4 + milliseconds(2'000);
  TRY_ASSIGN(std::optional<Json> reply, child->ReceiveSoon(id, patience));
  if (reply) return reply;
  why = child->alive() ? fmt::format("too slow: it did not finish within {} s (raise --seconds)",
                                     options.deadline.count())
                       : fmt::format("Python ended while running it: {}", child->ExitReason());
  child.reset();
  return std::optional<Json>();
}

Importer::Importer(ImportOptions options) : impl_(new Impl{}) {
  impl_->options = std::move(options);
}
Importer::~Importer() = default;

Result<ImportOutcome> Importer::Import(const ImportRequest& request) {
  std::error_code ignored;
  std::string why;
  TRY_ASSIGN(const std::optional<Json> reply,
             impl_->Ask({{"op", "import"},
                         {"path", std::filesystem::absolute(request.path, ignored).string()},
                         {"name", request.name},
                         {"module", request.module},
                         {"inputs", request.inputs},
                         {"init", request.init},
                         {"evaluate", request.evaluate}},
                        why));
  if (!reply) return ImportOutcome(ImportRefusal{why});
  return ReadImport(*reply);
}

Result<Json> Importer::Signature(const task::Task& task, task::Direction direction,
                                 const task::Setting& setting) {
  TRY(RequireDirection(task, direction));
  const auto index = static_cast<size_t>(direction);
  std::error_code ignored;
  std::string why;
  TRY_ASSIGN(
      const std::optional<Json> reply,
      impl_->Ask({{"op", "signature"},
                  {"path", std::filesystem::absolute(task.code[index], ignored).string()},
                  {"name", task.name},
                  {"hash", task.content_hash[index]},
                  {"direction", Name(direction)},
                  {"format", task.format == task::Format::kKernelBench ? "kernelbench" : "folder"},
                  {"init", setting.init},
                  {"inputs", setting.inputs}},
                 why));
  if (reply && reply->contains("failure")) {
    TRY_ASSIGN(why, JsonString(*reply, "failure", kImporter));
  }
  if (why.empty()) return *reply;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("the task {} ({}): {}", task.name, task.code[index].string(), why),
              "correct the task's code");
}

}  // namespace cupel::oracle
