// SPDX-License-Identifier: Apache-2.0
#include "record/protocol.h"

#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/json.h"

namespace cupel::record {
namespace {

/// Calls `visit` with every numeric member of a description and its stable name.
template <typename Device, typename Visit>
void ForEachField(Device& d, Visit visit) {
  visit("major", d.major);
  visit("minor", d.minor);
  visit("sm_count", d.sm_count);
  visit("clock_khz", d.clock_khz);
  visit("memory_clock_khz", d.memory_clock_khz);
  visit("memory_bus_bits", d.memory_bus_bits);
  visit("global_memory_bytes", d.global_memory_bytes);
  visit("l2_bytes", d.l2_bytes);
  visit("max_threads_per_block", d.max_threads_per_block);
  visit("max_threads_per_sm", d.max_threads_per_sm);
  visit("max_blocks_per_sm", d.max_blocks_per_sm);
  visit("registers_per_sm", d.registers_per_sm);
  visit("registers_per_block", d.registers_per_block);
  visit("max_registers_per_thread", d.max_registers_per_thread);
  visit("register_allocation_unit", d.register_allocation_unit);
  visit("shared_per_block", d.shared_per_block);
  visit("shared_per_block_optin", d.shared_per_block_optin);
  visit("shared_per_sm", d.shared_per_sm);
  visit("shared_reserved_per_block", d.shared_reserved_per_block);
  visit("shared_allocation_unit", d.shared_allocation_unit);
  visit("max_grid_x", d.max_grid_x);
  visit("max_grid_y", d.max_grid_y);
  visit("max_grid_z", d.max_grid_z);
  visit("max_block_x", d.max_block_x);
  visit("max_block_y", d.max_block_y);
  visit("max_block_z", d.max_block_z);
}

Json WriteKernel(const Kernel& kernel) {
  Json params = Json::array();
  for (const Kernel::Param& param : kernel.params) {
    params.push_back(param.offset);
    params.push_back(param.bytes);
  }
  return Json{{"name", kernel.name},
              {"image", kernel.image},
              {"param_bytes", kernel.param_bytes},
              {"params", std::move(params)},
              {"read_mask", Base64Encode(kernel.read_mask)},
              {"resources", Json::array({kernel.registers, kernel.static_shared, kernel.local_bytes,
                                         kernel.constant_bytes, kernel.max_threads})},
              {"required_block", kernel.required_block},
              {"cluster", kernel.cluster},
              {"waits_for_launch", kernel.waits_for_launch}};
}

/// `count` integers, or an error.
Result<std::vector<int64_t>> Integers(const Json& json, const char* key, size_t count) {
  TRY_ASSIGN(auto list, JsonIntList(json, key, "kernel"));
  if (list.size() != count) return Fail(ErrorCode::kInternal, "kernel: wrong number of integers");
  return list;
}

Result<Kernel> ReadKernel(const Json& json) {
  Kernel kernel;
  TRY_ASSIGN(kernel.name, JsonString(json, "name", "kernel"));
  TRY_ASSIGN(const int64_t image, JsonInt(json, "image", "kernel"));
  kernel.image = static_cast<int>(image);
  TRY_ASSIGN(const int64_t param_bytes, JsonInt(json, "param_bytes", "kernel"));
  kernel.param_bytes = static_cast<uint32_t>(param_bytes);
  TRY_ASSIGN(const auto params, JsonIntList(json, "params", "kernel"));
  for (size_t i = 0; i + 1 < params.size(); i += 2) {
    kernel.params.push_back(
        {static_cast<uint32_t>(params[i]), static_cast<uint32_t>(params[i + 1])});
  }
  TRY_ASSIGN(const auto mask, JsonString(json, "read_mask", "kernel"));
  TRY_ASSIGN(kernel.read_mask, Base64Decode(mask, "kernel"));
  TRY_ASSIGN(kernel.waits_for_launch, JsonBool(json, "waits_for_launch", "kernel"));
  TRY_ASSIGN(const auto resources, Integers(json, "resources", 5));
  kernel.registers = static_cast<int>(resources[0]);
  kernel.static_shared = static_cast<int>(resources[1]);
  kernel.local_bytes = static_cast<int>(resources[2]);
  kernel.constant_bytes = static_cast<int>(resources[3]);
  kernel.max_threads = static_cast<int>(resources[4]);
  TRY_ASSIGN(const auto block, Integers(json, "required_block", 3));
  TRY_ASSIGN(const auto cluster, Integers(json, "cluster", 3));
  for (size_t i = 0; i < 3; ++i) {
    kernel.required_block[i] = static_cast<int>(block[i]);
    kernel.cluster[i] = static_cast<uint32_t>(cluster[i]);
  }
  return kernel;
}

Argument MakeArgument(const task::Value& value);

struct ArgumentMaker {
  Argument& out;
  void operator()(const task::None&) const {}
  void operator()(bool b) const { out.kind = Argument::Kind::kBool, out.integer = b; }
  void operator()(int64_t i) const { out.kind = Argument::Kind::kInt, out.integer = i; }
  void operator()(double d) const { out.kind = Argument::Kind::kDouble, out.number = d; }
  void operator()(const std::string& s) const { out.kind = Argument::Kind::kString, out.text = s; }
  void operator()(const std::vector<task::Value>& items) const {
    out.kind = Argument::Kind::kTuple;
    for (const task::Value& item : items) out.items.push_back(MakeArgument(item));
  }
  void operator()(const task::Tensor& tensor) const {
    out.kind = Argument::Kind::kTensor;
    out.dtype = tensor.dtype;
    out.shape = tensor.shape;
    out.strides = tensor.strides;
    out.offset = tensor.offset;
    out.storage_bytes = tensor.storage.size();
    if (task::HostMayRead(tensor)) {
      const auto size = static_cast<size_t>(SizeOf(tensor.dtype));
      const size_t count = static_cast<size_t>(tensor.numel()) * size;
      const auto bytes = tensor.storage.subspan(static_cast<size_t>(tensor.offset) * size, count);
      out.value.assign(reinterpret_cast<const char*>(bytes.data()), count);
    }
  }
};

Argument MakeArgument(const task::Value& value) {
  Argument argument;
  std::visit(ArgumentMaker{argument}, value.data);
  return argument;
}

Json WriteArgument(const Argument& argument) {
  Json json{{"kind", static_cast<int>(argument.kind)}};
  switch (argument.kind) {
    case Argument::Kind::kNone:
      break;
    case Argument::Kind::kBool:
    case Argument::Kind::kInt:
      json["integer"] = argument.integer;
      break;
    case Argument::Kind::kDouble:
      json["bits"] = std::bit_cast<int64_t>(argument.number);  // exact, also for inf and nan
      break;
    case Argument::Kind::kString:
      json["text"] = Base64Encode(argument.text);
      break;
    case Argument::Kind::kTuple: {
      Json items = Json::array();
      for (const Argument& item : argument.items) items.push_back(WriteArgument(item));
      json["items"] = std::move(items);
      break;
    }
    case Argument::Kind::kTensor:
      json["dtype"] = static_cast<int>(argument.dtype);
      json["shape"] = argument.shape;
      json["strides"] = argument.strides;
      json["offset"] = argument.offset;
      json["storage_bytes"] = argument.storage_bytes;
      json["value"] = Base64Encode(argument.value);
      break;
  }
  return json;
}

Result<Argument> ReadArgument(const Json& json) {
  constexpr std::string_view kWhat = "argument";
  Argument argument;
  TRY_ASSIGN(const int64_t kind, JsonInt(json, "kind", kWhat));
  argument.kind = static_cast<Argument::Kind>(kind);
  switch (argument.kind) {
    case Argument::Kind::kNone:
      break;
    case Argument::Kind::kBool:
    case Argument::Kind::kInt: {
      TRY_ASSIGN(argument.integer, JsonInt(json, "integer", kWhat));
      break;
    }
    case Argument::Kind::kDouble: {
      TRY_ASSIGN(const int64_t bits, JsonInt(json, "bits", kWhat));
      argument.number = std::bit_cast<double>(bits);
      break;
    }
    case Argument::Kind::kString: {
      TRY_ASSIGN(const auto text, JsonString(json, "text", kWhat));
      TRY_ASSIGN(argument.text, Base64Decode(text, kWhat));
      break;
    }
    case Argument::Kind::kTuple: {
      TRY_ASSIGN(const Json* items, JsonArray(json, "items", kWhat));
      for (const Json& item : *items) {
        TRY_ASSIGN(auto read, ReadArgument(item));
        argument.items.push_back(std::move(read));
      }
      break;
    }
    case Argument::Kind::kTensor: {
      TRY_ASSIGN(const int64_t dtype, JsonInt(json, "dtype", kWhat));
      argument.dtype = static_cast<DType>(dtype);
      TRY_ASSIGN(argument.shape, JsonIntList(json, "shape", kWhat));
      TRY_ASSIGN(argument.strides, JsonIntList(json, "strides", kWhat));
      TRY_ASSIGN(argument.offset, JsonInt(json, "offset", kWhat));
      TRY_ASSIGN(const int64_t bytes, JsonInt(json, "storage_bytes", kWhat));
      argument.storage_bytes = static_cast<uint64_t>(bytes);
      TRY_ASSIGN(const auto value, JsonString(json, "value", kWhat));
      TRY_ASSIGN(argument.value, Base64Decode(value, kWhat));
      break;
    }
  }
  return argument;
}

}  // namespace

std::string CleanText(std::string text) {
  constexpr size_t kMaxText = 4000;
  if (text.size() > kMaxText) text.resize(kMaxText);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' && c != '\n') c = ' ';
  }
  return text;
}

Result<Refusal> RefusalFromJson(const Json& json) {
  constexpr std::string_view kWhat = "refusal";
  Refusal refusal;
  TRY_ASSIGN(refusal.code, JsonString(json, "code", kWhat));
  TRY_ASSIGN(auto message, JsonString(json, "message", kWhat));
  TRY_ASSIGN(auto where, JsonString(json, "where", kWhat));
  TRY_ASSIGN(refusal.unsupported, JsonBool(json, "unsupported", kWhat));
  refusal.message = CleanText(std::move(message));
  refusal.where = CleanText(std::move(where));
  return refusal;
}

Json ToJson(const Setup& setup) {
  Json device{{"name", setup.device.name}, {"full_name", setup.device.full_name}};
  ForEachField(setup.device, [&](const char* name, const auto& field) { device[name] = field; });
  Json kernels = Json::array();
  for (const Kernel& kernel : setup.kernels) kernels.push_back(WriteKernel(kernel));
  return Json{{"shared_object", setup.shared_object},
              {"images", setup.images},
              {"device", std::move(device)},
              {"kernels", std::move(kernels)}};
}

Result<Setup> SetupFromJson(const Json& json) {
  constexpr std::string_view kWhat = "set-up";
  Setup setup;
  TRY_ASSIGN(setup.shared_object, JsonString(json, "shared_object", kWhat));
  TRY_ASSIGN(const int64_t images, JsonInt(json, "images", kWhat));
  setup.images = static_cast<int>(images);
  TRY_ASSIGN(const Json* device, JsonObject(json, "device", kWhat));
  TRY_ASSIGN(setup.device.name, JsonString(*device, "name", kWhat));
  TRY_ASSIGN(setup.device.full_name, JsonString(*device, "full_name", kWhat));
  Status status;
  ForEachField(setup.device, [&](const char* name, auto& field) {
    const auto value = JsonInt(*device, name, kWhat);
    if (!value) {
      status = tl::unexpected<Error>(value.error());
    } else {
      field = static_cast<std::remove_reference_t<decltype(field)>>(*value);
    }
  });
  TRY(status);
  TRY_ASSIGN(const Json* kernels, JsonArray(json, "kernels", kWhat));
  for (const Json& kernel : *kernels) {
    TRY_ASSIGN(auto read, ReadKernel(kernel));
    setup.kernels.push_back(std::move(read));
  }
  return setup;
}

Request MakeRequest(const std::string& function, const std::vector<task::Value>& args) {
  Request request;
  request.function = function;
  for (const task::Value& value : args) request.args.push_back(MakeArgument(value));
  return request;
}

Json ToJson(const Request& request) {
  Json args = Json::array();
  for (const Argument& argument : request.args) args.push_back(WriteArgument(argument));
  return Json{
      {"function", request.function},        {"args", std::move(args)},
      {"recordings", request.recordings},    {"seed", std::bit_cast<int64_t>(request.seed)},
      {"budget_us", request.budget_us},      {"may_return_numbers", request.may_return_numbers},
      {"other_stream", request.other_stream}};
}

Result<Request> RequestFromJson(const Json& json) {
  constexpr std::string_view kWhat = "request";
  Request request;
  TRY_ASSIGN(request.function, JsonString(json, "function", kWhat));
  TRY_ASSIGN(const Json* args, JsonArray(json, "args", kWhat));
  for (const Json& item : *args) {
    TRY_ASSIGN(auto read, ReadArgument(item));
    request.args.push_back(std::move(read));
  }
  TRY_ASSIGN(const int64_t recordings, JsonInt(json, "recordings", kWhat));
  request.recordings = static_cast<int>(recordings);
  TRY_ASSIGN(const int64_t seed, JsonInt(json, "seed", kWhat));
  request.seed = std::bit_cast<uint64_t>(seed);
  TRY_ASSIGN(request.budget_us, JsonInt(json, "budget_us", kWhat));
  TRY_ASSIGN(request.may_return_numbers, JsonBool(json, "may_return_numbers", kWhat));
  TRY_ASSIGN(request.other_stream, JsonBool(json, "other_stream", kWhat));
  return request;
}

}  // namespace cupel::record
