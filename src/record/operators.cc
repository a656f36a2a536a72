// Calls of PyTorch's operators in host code: the parent process knows their results' shapes
// (plan/operators.h). Answers are kept, because a function is recorded some hundreds of times.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "plan/json_parts.h"
#include "plan/operator_json.h"
#include "record/channel.h"
#include "record/standin.h"

namespace cupel::record {
namespace {

constexpr char kAnswer[] = "the description of an operator";

/// The arguments of a call in a plan's form, with device addresses, and the tensors among them.
struct Call {
  std::string name;
  std::vector<plan::OperatorValue> arguments;
  std::vector<const CupelTensor*> tensors;
};

plan::OperatorValue ValueOf(const CupelValue& value, Call& call) {
  plan::OperatorValue result;
  switch (value.kind) {
    case CUPEL_NONE:
      break;
    case CUPEL_BOOL:
      result.data = value.i != 0;
      break;
    case CUPEL_INT:
      result.data = value.i;
      break;
    case CUPEL_DOUBLE:
      result.data = value.d;
      break;
    case CUPEL_STRING:
      result.data = std::string(value.s, static_cast<size_t>(std::max(value.count, 0)));
      break;
    case CUPEL_TENSOR: {
      if (value.tensor->device != CUPEL_CUDA) {
        RefuseUnsupported("unsupported_operator",
                          fmt::format("{} on a tensor that is not on the GPU", call.name));
      }
      const RawView view = ViewOf(*value.tensor);
      result.data = plan::View{
          {-1, static_cast<int64_t>(view.address)}, view.dtype, view.shape, view.strides};
      call.tensors.push_back(value.tensor);
      break;
    }
    default: {
      std::vector<plan::OperatorValue> items;
      items.reserve(static_cast<size_t>(std::max(value.count, 0)));
      for (int i = 0; i < value.count; ++i) items.push_back(ValueOf(value.items[i], call));
      result.data = std::move(items);
    }
  }
  return result;
}

/// The question about the call, which contains no addresses. Tensors with one storage share it.
Json QuestionOf(const Call& call) {
  std::vector<const CupelTensor*> storages;
  std::vector<plan::OperatorValue> arguments = call.arguments;
  size_t next = 0;
  for (plan::OperatorValue& argument : arguments) {
    plan::ForEachViewOf(argument, false, [&](plan::View& view, bool /*is_written*/) {
      const CupelTensor* tensor = call.tensors[next++];
      auto known = std::find_if(storages.begin(), storages.end(), [&](const CupelTensor* other) {
        return other->storage == tensor->storage;
      });
      if (known == storages.end()) known = storages.insert(known, tensor);
      view.address.buffer = static_cast<int>(known - storages.begin());
      view.address.offset -= static_cast<int64_t>(tensor->storage);
    });
  }
  Json question{{"name", call.name}, {"arguments", Json::array()}, {"storages", Json::array()}};
  for (const plan::OperatorValue& argument : arguments) {
    question["arguments"].push_back(plan::WriteValue(argument));
  }
  for (const CupelTensor* tensor : storages) question["storages"].push_back(tensor->storage_bytes);
  return question;
}

struct ResultShape {
  CupelTensor shape{};  // storage_bytes: what new memory needs
  int shares = -1;      // the number of the argument's tensor that has the same storage
};

struct Description {
  std::vector<ResultShape> results;
  std::vector<int> mutated;
};

Result<ResultShape> ReadResult(const Json& json, const std::vector<int>& first_of_storage) {
  ResultShape result;
  TRY_ASSIGN(const std::string dtype, JsonString(json, "dtype", kAnswer));
  TRY_ASSIGN(const DType type, plan::ReadDType(dtype, kAnswer));
  TRY_ASSIGN(const auto sizes, JsonIntList(json, "shape", kAnswer));
  TRY_ASSIGN(const auto strides, JsonIntList(json, "strides", kAnswer));
  TRY_ASSIGN(result.shape.offset, JsonInt(json, "offset", kAnswer));
  TRY_ASSIGN(const int64_t bytes, JsonInt(json, "bytes", kAnswer));
  if (sizes.size() > CUPEL_MAX_DIMS || strides.size() != sizes.size()) {
    return Fail(ErrorCode::kUnsupported, "a result has more than 16 dimensions");
  }
  result.shape.storage_bytes = static_cast<uint64_t>(bytes);
  result.shape.dtype = static_cast<int32_t>(type);
  result.shape.device = CUPEL_CUDA;
  result.shape.ndim = static_cast<int32_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), result.shape.sizes);
  std::copy(strides.begin(), strides.end(), result.shape.strides);
  if (json.contains("storage") && !json["storage"].is_null()) {
    TRY_ASSIGN(const int64_t storage, JsonInt(json, "storage", kAnswer));
    if (storage < 0 || static_cast<size_t>(storage) >= first_of_storage.size()) {
      return Fail(ErrorCode::kInternal, "a result has an unknown storage");
    }
    result.shares = first_of_storage[static_cast<size_t>(storage)];
  }
  return result;
}

Result<Description> ReadDescription(const Json& json, const Call& call) {
  std::vector<int> first_of_storage;  // the first tensor of each storage
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const auto before = call.tensors.begin() + static_cast<ptrdiff_t>(i);
    const bool is_known = std::any_of(call.tensors.begin(), before, [&](const CupelTensor* other) {
      return other->storage == call.tensors[i]->storage;
    });
    if (!is_known) first_of_storage.push_back(static_cast<int>(i));
  }
  Description description;
  TRY_ASSIGN(const Json* outputs, JsonArray(json, "outputs", kAnswer));
  for (const Json& output : *outputs) {
    TRY_ASSIGN(description.results.emplace_back(), ReadResult(output, first_of_storage));
  }
  TRY_ASSIGN(const auto mutated, JsonIntList(json, "mutated", kAnswer));
  description.mutated.assign(mutated.begin(), mutated.end());
  return description;
}

/// What the parent says about the call. Refuses if it is not possible.
const Description& Describe(const Call& call) {
  static std::map<std::string, Description> known;
  const Json question = QuestionOf(call);
  const std::string key = DumpJson(question);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  if (!WriteMessage({{"describe", question}})) _exit(1);
  const std::optional<Json> answer = ReadMessage();
  if (!answer) _exit(1);
  if (const auto why = JsonString(*answer, "refused", kAnswer)) {
    RefuseUnsupported("unsupported_operator", *why);
  }
  if (const auto why = JsonString(*answer, "failure", kAnswer)) {
    Refuse("host_exception", fmt::format("{}: {}", call.name, *why));
  }
  auto description = ReadDescription(*answer, call);
  if (!description) {
    RefuseUnsupported("unsupported_operator",
                      fmt::format("{}: {}", call.name, description.error().message));
  }
  return known.emplace(key, std::move(*description)).first->second;
}

}  // namespace
}  // namespace cupel::record

extern "C" void cupel_rt_operator(const char* name, const CupelValue* args, int32_t count,
                                  CupelTakeResult take, void* context) {
  using namespace cupel;          // NOLINT(google-build-using-namespace)
  using namespace cupel::record;  // NOLINT(google-build-using-namespace)
  Call call;
  call.name = name;
  for (int32_t i = 0; i < count; ++i) call.arguments.push_back(ValueOf(args[i], call));
  const Description& description = Describe(call);
  RawOperator raw;
  bool is_work = !description.mutated.empty();
  for (const ResultShape& result : description.results) {
    const CupelTensor* tensor = take(context, &result.shape, result.shares);
    plan::View& view = raw.work.results.emplace_back();
    view.address.buffer = plan::kNoneOutput;
    if (result.shares >= 0) continue;
    is_work = true;
    const RawView at = ViewOf(*tensor);
    view = {{-1, static_cast<int64_t>(at.address)}, at.dtype, at.shape, at.strides};
  }
  if (!is_work) return;  // it makes views
  raw.work.name = std::move(call.name);
  raw.work.arguments = std::move(call.arguments);
  raw.work.mutated = description.mutated;
  CurrentSession().Submit(CurrentSession().current_stream, std::move(raw));
}
