// SPDX-License-Identifier: Apache-2.0
#include "record/candidate.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "record/clock.h"
#include "record/refuse.h"

namespace cupel::record {
namespace {

struct Returned {
  std::vector<plan::View> outputs;
  std::vector<plan::Number> numbers;
  bool may_be_numbers = false;
  bool is_tuple = false;
  bool called = false;
};

/// The number that a value is, if it may be one.
std::optional<plan::Number> NumberIn(const Returned& returned, const CupelValue& value) {
  plan::Number number{static_cast<int>(returned.outputs.size()), {}};
  if (!returned.may_be_numbers) return std::nullopt;
  if (value.kind == CUPEL_BOOL) {
    number.value = value.i != 0;
  } else if (value.kind == CUPEL_INT) {
    number.value = value.i;
  } else if (value.kind == CUPEL_DOUBLE && std::isfinite(value.d)) {
    number.value = value.d;
  } else {
    return std::nullopt;
  }
  return number;
}

void AddOutput(Returned& returned, const CupelValue& value) {
  plan::View none;
  none.address.buffer = plan::kNoneOutput;
  const size_t index = returned.outputs.size();
  switch (value.kind) {
    case CUPEL_NONE:
      returned.outputs.push_back(none);
      break;
    case CUPEL_TENSOR:
      returned.outputs.push_back(CurrentSession().OutputView(*value.tensor, index));
      break;
    default: {
      if (const auto number = NumberIn(returned, value)) {
        returned.numbers.push_back(*number);
        returned.outputs.push_back(none);
        break;
      }
      constexpr const char* kNames[] = {
          "None", "a bool", "an int", "a float", "a string", "a tensor", "a tuple inside a tuple"};
      const char* name = value.kind >= 0 && value.kind <= CUPEL_TUPLE ? kNames[value.kind] : "?";
      Refuse("wrong_return", fmt::format("the function returned {} instead of a tensor", name),
             fmt::format("output {}", index));
    }
  }
}

void OnReturn(void* context, const CupelValue* value) {
  constexpr int kMaxOutputs = 1024;
  auto& returned = *static_cast<Returned*>(context);
  returned.called = true;
  if (value->kind != CUPEL_TUPLE) {
    AddOutput(returned, *value);
    return;
  }
  returned.is_tuple = true;
  if (value->count < 0 || value->count > kMaxOutputs) {
    Refuse("wrong_return", "the function returned too many values");
  }
  for (int i = 0; i < value->count; ++i) AddOutput(returned, value->items[i]);
}

/// Arguments in the ABI's form. Tensors and their storages are in depth-first order.
class AbiArguments {
 public:
  explicit AbiArguments(const std::vector<Argument>& args) : values_(Convert(args)) {}
  AbiArguments(const AbiArguments&) = delete;
  AbiArguments& operator=(const AbiArguments&) = delete;

  const std::vector<CupelValue>& values() const { return values_; }
  std::deque<CupelTensor>& tensors() { return tensors_; }
  const std::vector<ArgumentStorage>& storages() const { return storages_; }

 private:
  std::vector<CupelValue> Convert(const std::vector<Argument>& args) {
    std::vector<CupelValue> values;
    values.reserve(args.size());
    for (const Argument& argument : args) values.push_back(Convert(argument));
    return values;
  }

  CupelValue Convert(const Argument& argument) {
    CupelValue value{};
    switch (argument.kind) {
      case Argument::Kind::kNone:
        value.kind = CUPEL_NONE;
        break;
      case Argument::Kind::kBool:
        value.kind = CUPEL_BOOL, value.i = argument.integer;
        break;
      case Argument::Kind::kInt:
        value.kind = CUPEL_INT, value.i = argument.integer;
        break;
      case Argument::Kind::kDouble:
        value.kind = CUPEL_DOUBLE, value.d = argument.number;
        break;
      case Argument::Kind::kString:
        value.kind = CUPEL_STRING;
        value.s = argument.text.c_str();
        value.count = static_cast<int32_t>(argument.text.size());
        break;
      case Argument::Kind::kTuple: {
        const auto& items = tuples_.emplace_back(Convert(argument.items));
        value.kind = CUPEL_TUPLE;
        value.items = items.data();
        value.count = static_cast<int32_t>(items.size());
        break;
      }
      case Argument::Kind::kTensor:
        value.kind = CUPEL_TENSOR, value.tensor = Add(argument);
        break;
    }
    return value;
  }

  const CupelTensor* Add(const Argument& argument) {
    CupelTensor& tensor = tensors_.emplace_back();
    tensor = {};
    tensor.storage_bytes = argument.storage_bytes;
    tensor.offset = argument.offset;
    tensor.dtype = static_cast<int32_t>(argument.dtype);
    tensor.device = CUPEL_CUDA;
    tensor.ndim = static_cast<int32_t>(std::min<size_t>(argument.shape.size(), CUPEL_MAX_DIMS));
    std::copy_n(argument.shape.begin(), tensor.ndim, tensor.sizes);
    std::copy_n(argument.strides.begin(), tensor.ndim, tensor.strides);
    storages_.push_back(
        {argument.storage_bytes, argument.value,
         static_cast<uint64_t>(argument.offset) * static_cast<uint64_t>(SizeOf(argument.dtype)),
         !IsFloating(argument.dtype)});
    return &tensor;
  }

  std::deque<CupelTensor> tensors_;
  std::deque<std::vector<CupelValue>> tuples_;
  std::vector<ArgumentStorage> storages_;
  std::vector<CupelValue> values_;
};

}  // namespace

Candidate Candidate::Load(const std::string& path) {
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    RefuseUnsupported("unsupported_api",
                      fmt::format("cannot load the candidate's shared object: {}", dlerror()));
  }
  Candidate candidate;
  const auto abi =
      reinterpret_cast<decltype(&cupel_candidate_abi)>(dlsym(object, "cupel_candidate_abi"));
  candidate.describe_ =
      reinterpret_cast<decltype(candidate.describe_)>(dlsym(object, "cupel_candidate_describe"));
  candidate.call_ =
      reinterpret_cast<decltype(candidate.call_)>(dlsym(object, "cupel_candidate_call"));
  if (abi == nullptr || candidate.describe_ == nullptr || candidate.call_ == nullptr) {
    Refuse("no_function",
           "the file defines no module: PYBIND11_MODULE or TORCH_LIBRARY is missing");
  }
  if (abi() != CUPEL_ABI_VERSION) {
    Refuse("host_crash", "the candidate was built against another version of cupel's headers");
  }
  return candidate;
}

std::vector<std::string> Candidate::Functions() const {
  constexpr size_t kMost = 1024;
  std::vector<std::string> signatures;
  describe_(
      [](void* context, const char* name, const char* signature) {
        auto& list = *static_cast<std::vector<std::string>*>(context);
        if (list.size() < kMost) list.emplace_back(signature != nullptr ? signature : name);
      },
      &signatures);
  return signatures;
}

std::string Candidate::Exports() const {
  constexpr size_t kShown = 32;
  std::vector<std::string> names = Functions();
  names.resize(std::min(names.size(), kShown));
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

Candidate::Call Candidate::Record(const Request& request, uint64_t seed,
                                  const Surroundings& around) const {
  Session& session = CurrentSession();
  AbiArguments args(request.args);
  const auto addresses = session.BeginCall(seed, args.storages(), request.other_stream);
  for (size_t i = 0; i < addresses.size(); ++i) args.tensors()[i].storage = addresses[i];
  std::array<char, 2000> message{};
  Returned returned;
  returned.may_be_numbers = request.may_return_numbers;
  const auto start = Now(CLOCK_MONOTONIC);
  const int status = around.Run([&] {
    return call_(request.function.c_str(), args.values().data(),
                 static_cast<int32_t>(args.values().size()), &OnReturn, &returned, message.data(),
                 static_cast<int32_t>(message.size() - 1));
  });
  const auto end = Now(CLOCK_MONOTONIC);
  switch (status) {
    case CUPEL_OK:
      break;
    case CUPEL_EXCEPTION:
      Refuse("host_exception",
             session.driver_problem.empty()
                 ? std::string(message.data())
                 : fmt::format("{} ({})", message.data(), session.driver_problem));
    case CUPEL_BAD_ARGUMENTS:
      Refuse("wrong_arguments", message.data(), request.function);
    case CUPEL_UNSUPPORTED:
      RefuseUnsupported("unsupported_operator", message.data());
    case CUPEL_NO_FUNCTION:
      Refuse("no_function", fmt::format("the module has no function \"{}\"; it exports {} "
                                        "(--entry NAME selects one)",
                                        request.function, Exports()));
    default:
      Refuse("host_crash", "the candidate's module returned an unknown status");
  }
  if (!returned.called) Refuse("wrong_return", "the function returned nothing");
  Call call;
  call.plan = session.EndCall(std::move(returned.outputs));
  call.plan.numbers = std::move(returned.numbers);
  call.plan.returns_tuple = returned.is_tuple;
  call.plan.function = request.function;
  call.reads_values = session.read_values;
  call.host_us = std::chrono::duration<double, std::micro>(end - start).count();
  return call;
}

}  // namespace cupel::record
