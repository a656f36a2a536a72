// SPDX-License-Identifier: Apache-2.0
#include "record/candidate.h"

#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "base/random.h"
#include "os/mapped_file.h"
#include "plan/codec.h"
#include "ptx/parser.h"
#include "record/refuse.h"

namespace cupel::record {
namespace {

/// A table of an ELF file, empty when its bounds do not hold.
template <typename T>
std::span<const T> Table(std::span<const std::byte> file, uint64_t offset, uint64_t bytes) {
  if (offset > file.size() || bytes > file.size() - offset || offset % alignof(T) != 0) return {};
  return {reinterpret_cast<const T*>(file.data() + offset), bytes / sizeof(T)};
}

/// Symbols that the object needs and that nothing in this process defines.
std::vector<std::string> MissingSymbols(std::span<const std::byte> file) {
  std::vector<std::string> missing;
  const auto header = Table<Elf64_Ehdr>(file, 0, std::min(file.size(), sizeof(Elf64_Ehdr)));
  if (header.empty() || std::memcmp(header[0].e_ident, ELFMAG, SELFMAG) != 0) return missing;
  const auto sections =
      Table<Elf64_Shdr>(file, header[0].e_shoff, uint64_t{header[0].e_shnum} * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& names = sections[section.sh_link];
    const auto strings = Table<char>(file, names.sh_offset, names.sh_size);
    if (strings.empty() || strings.back() != '\0') continue;
    for (const Elf64_Sym& symbol : Table<Elf64_Sym>(file, section.sh_offset, section.sh_size)) {
      const bool needed = symbol.st_shndx == SHN_UNDEF &&
                          ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL &&
                          symbol.st_name < strings.size();
      if (!needed || strings[symbol.st_name] == '\0') continue;
      const char* name = &strings[symbol.st_name];
      if (dlsym(RTLD_DEFAULT, name) == nullptr) missing.push_back(ptx::Demangle(name));
    }
  }
  return missing;
}

struct Returned {
  std::vector<plan::View> outputs;
  bool is_tuple = false;
  bool called = false;
};

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
      constexpr const char* kNames[] = {
          "None", "a bool", "an int", "a float", "a string", "a tensor", "a tuple inside a tuple"};
      const char* name = value.kind >= 0 && value.kind <= CUPEL_TUPLE ? kNames[value.kind] : "?";
      Refuse("wrong_return",
             fmt::format("the function returned {} where a tensor is expected", name),
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

/// Arguments in the form of the ABI. Tensors come in depth-first order: the order of storages.
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
         static_cast<uint64_t>(argument.offset) * static_cast<uint64_t>(SizeOf(argument.dtype))});
    return &tensor;
  }

  std::deque<CupelTensor> tensors_;
  std::deque<std::vector<CupelValue>> tuples_;
  std::vector<ArgumentStorage> storages_;
  std::vector<CupelValue> values_;
};

/// What changed first, for people.
std::string Difference(const plan::Plan& before, const plan::Plan& after) {
  const auto lines = [](const plan::Plan& plan) {
    std::vector<std::string> list;
    const std::string text = plan::Describe(plan);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      list.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return list;
  };
  const auto old_lines = lines(before);
  const auto new_lines = lines(after);
  for (size_t i = 0; i < std::max(old_lines.size(), new_lines.size()); ++i) {
    const std::string was = i < old_lines.size() ? old_lines[i] : "nothing";
    const std::string is = i < new_lines.size() ? new_lines[i] : "nothing";
    if (was != is) return fmt::format("\"{}\" became \"{}\"", was, is);
  }
  for (size_t i = 0; i < before.nodes.size(); ++i) {
    if (before.nodes[i] == after.nodes[i]) continue;
    const bool launch = std::holds_alternative<plan::Launch>(before.nodes[i].work);
    return fmt::format("{} of \"{}\" changed", launch ? "parameter values" : "details",
                       old_lines[i]);
  }
  return "sizes of buffers changed";
}

}  // namespace

void CheckSymbols(const std::string& path) {
  std::vector<std::string> missing;
  if (const auto file = os::MappedFile::Open(path)) missing = MissingSymbols(file->bytes());
  if (missing.empty()) return;
  const size_t count = missing.size();
  if (count > 8) missing.resize(8);
  RefuseUnsupported("unsupported_api",
                    fmt::format("the candidate uses {} that cupel's stand-in CUDA runtime lacks: "
                                "{}{}",
                                count == 1 ? "a function" : "functions", fmt::join(missing, ", "),
                                count > 8 ? ", …" : ""),
                    missing.front());
}

Candidate Candidate::Load(const std::string& path) {
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    RefuseUnsupported("unsupported_api",
                      fmt::format("the candidate's shared object does not load: {}", dlerror()));
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

std::string Candidate::Exports() const {
  std::vector<std::string> names;
  describe_(
      [](void* context, const char* name, const char* signature) {
        auto& list = *static_cast<std::vector<std::string>*>(context);
        if (list.size() < 32) list.emplace_back(signature != nullptr ? signature : name);
      },
      &names);
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

Candidate::Call Candidate::Record(const Request& request, uint64_t seed) const {
  Session& session = CurrentSession();
  AbiArguments args(request.args);
  const auto addresses = session.BeginCall(seed, args.storages());
  for (size_t i = 0; i < addresses.size(); ++i) args.tensors()[i].storage = addresses[i];
  std::array<char, 2000> message{};
  Returned returned;
  const auto start = std::chrono::steady_clock::now();
  const int status = call_(request.function.c_str(), args.values().data(),
                           static_cast<int32_t>(args.values().size()), &OnReturn, &returned,
                           message.data(), static_cast<int32_t>(message.size() - 1));
  const auto end = std::chrono::steady_clock::now();
  switch (status) {
    case CUPEL_OK:
      break;
    case CUPEL_EXCEPTION:
      Refuse("host_exception", message.data());
    case CUPEL_BAD_ARGUMENTS:
      Refuse("wrong_arguments", message.data(), request.function);
    case CUPEL_UNSUPPORTED:
      RefuseUnsupported("unsupported_operator", message.data());
    case CUPEL_NO_FUNCTION:
      Refuse("no_function", fmt::format("the module has no function \"{}\"; it exports {}",
                                        request.function, Exports()));
    default:
      Refuse("host_crash", "the candidate's module returned an unknown status");
  }
  if (!returned.called) Refuse("wrong_return", "the function returned nothing");
  Call call;
  call.plan = session.EndCall(std::move(returned.outputs));
  call.plan.returns_tuple = returned.is_tuple;
  call.plan.function = request.function;
  call.host_us = std::chrono::duration<double, std::micro>(end - start).count();
  return call;
}

PureRecording RecordPure(const Candidate& candidate, const Request& request) {
  constexpr int kSetUpCalls = 8;  // may differ: static guards, lazily made workspaces
  constexpr int kFewestCalls = 24;
  constexpr uint64_t kRepeatOneIn = 3;
  const auto start = std::chrono::steady_clock::now();
  Random random(request.seed);
  std::vector<uint64_t> seeds;
  std::vector<double> times;
  PureRecording result;
  uint64_t reference_seed = 0;
  for (int i = 0; i < request.recordings; ++i) {
    const bool repeat = i >= kSetUpCalls && random.Below(kRepeatOneIn) == 0;
    const uint64_t seed = repeat ? seeds[random.Below(seeds.size())] : random();
    seeds.push_back(seed);
    auto call = candidate.Record(request, seed);
    ++result.recordings;
    if (i < kSetUpCalls && i + 1 < request.recordings) continue;
    times.push_back(call.host_us);
    if (times.size() == 1) {
      result.plan = std::move(call.plan);
      reference_seed = seed;
    } else if (call.plan != result.plan) {
      // The same two sets of addresses again: when they decide, it is not the history.
      const bool by_address = candidate.Record(request, reference_seed).plan == result.plan &&
                              candidate.Record(request, seed).plan == call.plan;
      const std::string difference = Difference(result.plan, call.plan);
      Refuse("impure",
             by_address ? fmt::format("the plan depends on device addresses: {}", difference)
                        : fmt::format(
                              "call {} asks for other work than the calls before it, with the same "
                              "arguments: {}",
                              i + 1, difference),
             request.function);
    }
    const auto elapsed = std::chrono::steady_clock::now() - start;
    if (i + 1 >= kFewestCalls && elapsed > std::chrono::microseconds(request.budget_us)) break;
  }
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                   times.end());
  result.host_us = times[times.size() / 2];
  return result;
}

}  // namespace cupel::record
