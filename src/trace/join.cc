// SPDX-License-Identifier: Apache-2.0
#include "trace/join.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/json.h"
#include "plan/codec.h"
#include "plan/json_parts.h"
#include "plan/limits.h"
#include "plan/operator_json.h"
#include "plan/tensor_map.h"
#include "plan/tensor_map_json.h"
#include "record/launch_check.h"

namespace cupel::trace {
namespace {

using plan::View;
using record::Refusal;
using Joined = std::variant<plan::Plan, Refusal>;

constexpr std::string_view kTrace = "the trace";

/// Whether the elements of a view are in row-major order without gaps.
bool IsDense(const View& view) {
  int64_t expected = 1;
  for (size_t i = view.shape.size(); i-- > 0;) {
    if (view.shape[i] != 1 && view.strides[i] != expected) return false;
    expected *= view.shape[i];
  }
  return true;
}

class Joiner {
 public:
  explicit Joiner(const Parts& parts) : parts_(parts) {}

  Result<Joined> Run(const Json& trace) {
    if (const Status status = Read(trace); !status) {
      if (refusal_) return Joined(std::move(*refusal_));
      if (status.error().code != ErrorCode::kInvalidArgument) return tl::unexpected(status.error());
      return Joined(Damaged(status.error().message));
    }
    if (const Status status = plan::Validate(plan_); !status) {
      return Joined(Damaged(status.error().message));
    }
    return Joined(std::move(plan_));
  }

 private:
  Status Read(const Json& trace) {
    TRY_ASSIGN(const Json* storages, JsonArray(trace, "storages", kTrace));
    if (storages->size() > plan::kMaxBuffers) return Broken("it has too many storages");
    for (const Json& storage : *storages) TRY(AddStorage(storage));
    storages_ = plan_.buffers.size();
    TRY_ASSIGN(const Json* steps, JsonArray(trace, "steps", kTrace));
    TRY_ASSIGN(const int64_t prepared, JsonInt(trace, "prepared", kTrace));
    for (size_t i = 0; i < steps->size(); ++i) {
      first_of_step_ = plan_.nodes.size();
      TRY(AddStep((*steps)[i]));
      EndStep();
      if (static_cast<int64_t>(i) + 1 == prepared) {
        plan_.prepared = static_cast<int>(plan_.nodes.size());
      }
    }
    TRY(CheckPrepared());
    TRY_ASSIGN(const Json* outputs, JsonArray(trace, "outputs", kTrace));
    for (const Json& output : *outputs) {
      View& view = plan_.outputs.emplace_back();
      view.address.buffer = plan::kNoneOutput;
      if (output.is_null()) continue;
      TRY_ASSIGN(view, ReadView(output));
    }
    TRY_ASSIGN(plan_.returns_tuple, JsonBool(trace, "tuple", kTrace));
    return {};
  }

  /// What a construction made depends on no input.
  Status CheckPrepared() {
    bool uses_input = false;
    const auto look = [&](const plan::Address& address) {
      if (address.buffer < 0) return;
      const plan::Buffer& buffer = plan_.buffers[static_cast<size_t>(address.buffer)];
      uses_input |= buffer.kind == plan::BufferKind::kArgument &&
                    parts_.arguments[static_cast<size_t>(buffer.argument)].is_input;
    };
    for (size_t i = 0; i < static_cast<size_t>(plan_.prepared); ++i) {
      std::visit([&](auto& work) { plan::ForEachAddress(work, look); }, plan_.nodes[i].work);
    }
    return uses_input ? Broken("a step of its construction uses an input") : Status();
  }

  Status Broken(std::string_view problem) const {
    return Fail(ErrorCode::kInvalidArgument, std::string(problem));
  }

  /// Ends the work: the candidate cannot be recorded.
  Status Refuse(Refusal refusal) {
    refusal_ = std::move(refusal);
    return Fail(ErrorCode::kInvalidArgument, refusal_->message);
  }

  Status AddStorage(const Json& json) {
    plan::Buffer& buffer = plan_.buffers.emplace_back();
    TRY_ASSIGN(const int64_t bytes, JsonInt(json, "bytes", kTrace));
    buffer.bytes = static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
    TRY_ASSIGN(const bool is_kept, JsonBool(json, "kept", kTrace));
    buffer.kind = is_kept ? plan::BufferKind::kWorkspace : plan::BufferKind::kTemporary;
    if (json.contains("argument") && !json["argument"].is_null()) {
      TRY_ASSIGN(const int64_t argument, JsonInt(json, "argument", kTrace));
      if (argument < 0 || static_cast<size_t>(argument) >= parts_.arguments.size() ||
          parts_.arguments[static_cast<size_t>(argument)].bytes != buffer.bytes) {
        return Broken("a storage does not match its argument");
      }
      buffer.kind = plan::BufferKind::kArgument;
      buffer.argument = static_cast<int>(argument);
    }
    return {};
  }

  Result<View> ReadView(const Json& json) const {
    TRY_ASSIGN(View view, plan::ReadView(json, kTrace));
    TRY(CheckStorage(view.address.buffer));
    return view;
  }

  Status CheckStorage(int64_t index) const {
    if (index < 0 || static_cast<size_t>(index) >= storages_) return Broken("unknown storage");
    return {};
  }

  template <typename Work>
  void Add(Work work) {
    plan_.nodes.push_back({std::move(work), {}});
  }

  /// Orders the step's nodes after all earlier ones.
  void EndStep() {
    if (plan_.nodes.size() == first_of_step_) return;
    std::vector<bool> is_awaited(plan_.nodes.size() - first_of_step_, false);
    for (size_t i = first_of_step_; i < plan_.nodes.size(); ++i) {
      plan::Node& node = plan_.nodes[i];
      for (const int other : node.after) {
        is_awaited[static_cast<size_t>(other) - first_of_step_] = true;
      }
      if (node.after.empty()) node.after = last_;
    }
    last_.clear();
    for (size_t i = first_of_step_; i < plan_.nodes.size(); ++i) {
      if (!is_awaited[i - first_of_step_]) last_.push_back(static_cast<int>(i));
    }
  }

  Status AddStep(const Json& step) {
    if (plan_.nodes.size() > plan::kMaxNodes) return Broken("it has too many steps");
    TRY_ASSIGN(const std::string kind, JsonString(step, "kind", kTrace));
    if (kind == "operator") return AddOperator(step);
    if (kind == "call") return AddCall(step);
    if (kind == "launch") return AddLaunch(step);
    TRY_ASSIGN(const Json* to_json, JsonObject(step, "to", kTrace));
    TRY_ASSIGN(const View to, ReadView(*to_json));
    if (kind == "copy") {
      TRY_ASSIGN(const Json* from_json, JsonObject(step, "from", kTrace));
      TRY_ASSIGN(View from, ReadView(*from_json));
      if (from.shape != to.shape) return Broken("a copy between different shapes");
      if (ElementsOf(to) == 0) return {};
      if (from.dtype == to.dtype && IsDense(from) && IsDense(to)) {
        const auto bytes = ElementsOf(to) * static_cast<uint64_t>(SizeOf(to.dtype));
        Add(plan::Copy{to.address, from.address, bytes});
      } else {
        Add(plan::CopyView{to, std::move(from)});
      }
      return {};
    }
    const char* field = kind == "fill" ? "pattern" : "bytes";
    TRY_ASSIGN(const std::string text, JsonString(step, field, kTrace));
    TRY_ASSIGN(std::string bytes, Base64Decode(text, kTrace));
    if (kind == "fill") return AddFill(to, std::move(bytes));
    if (kind != "upload" || !IsDense(to)) return Broken("a step of an unknown kind");
    Add(plan::Upload{to.address, std::move(bytes), {}, {}});
    return {};
  }

  Status AddFill(const View& to, std::string pattern) {
    if (pattern.size() != static_cast<size_t>(SizeOf(to.dtype))) {
      return Broken("a pattern of another size than its elements");
    }
    if (ElementsOf(to) == 0) return {};
    if (IsDense(to)) {
      Add(plan::Fill{to.address, std::move(pattern), ElementsOf(to)});
      return {};
    }
    View from = to;
    from.address = {static_cast<int>(plan_.buffers.size()), 0};
    std::fill(from.strides.begin(), from.strides.end(), 0);
    plan::Buffer& buffer = plan_.buffers.emplace_back();
    buffer.bytes = pattern.size();
    Add(plan::Upload{from.address, std::move(pattern), {}, {}});
    Add(plan::CopyView{to, std::move(from)});
    plan_.nodes.back().after = {static_cast<int>(plan_.nodes.size()) - 2};
    return {};
  }

  // ---- operators ----

  Status AddOperator(const Json& step) {
    Json json = step;
    json["mutated"] = Json::array();
    TRY_ASSIGN(plan::Operator work, plan::ReadOperator(json, kTrace));
    Status known;
    plan::ForEachView(work, [&](const View& view, bool /*is_written*/) {
      if (known) known = CheckStorage(view.address.buffer);
    });
    TRY(known);
    if (parts_.operators == nullptr) {
      return Refuse({"unsupported_operator", "operators of PyTorch need PyTorch", "", true});
    }
    TRY_ASSIGN(const Json answer, parts_.operators->Describe(QuestionOf(work)));
    if (const auto why = JsonString(answer, "refused", kTrace)) {
      return Refuse({"unsupported_operator", *why, work.name, true});
    }
    if (const auto why = JsonString(answer, "failure", kTrace)) {
      return Refuse({"host_exception", *why, work.name, false});
    }
    TRY(CheckResults(answer, work));
    Add(std::move(work));
    return {};
  }

  /// The question about an operator, in which storages have numbers of their own.
  Json QuestionOf(const plan::Operator& work) const {
    std::map<int, int> numbers;
    Json storages = Json::array(), arguments = Json::array();
    for (plan::OperatorValue value : work.arguments) {
      plan::ForEachViewOf(value, false, [&](View& view, bool /*is_written*/) {
        const auto [at, is_new] =
            numbers.emplace(view.address.buffer, static_cast<int>(numbers.size()));
        if (is_new) storages.push_back(plan_.buffers[static_cast<size_t>(at->first)].bytes);
        view.address.buffer = at->second;
      });
      arguments.push_back(plan::WriteValue(value));
    }
    return Json{{"name", work.name},
                {"arguments", std::move(arguments)},
                {"storages", std::move(storages)}};
  }

  /// Compares the results in the trace with what PyTorch says, and takes over what it writes.
  Status CheckResults(const Json& answer, plan::Operator& work) const {
    TRY_ASSIGN(const Json* outputs, JsonArray(answer, "outputs", kTrace));
    TRY_ASSIGN(const auto mutated, JsonIntList(answer, "mutated", kTrace));
    work.mutated.assign(mutated.begin(), mutated.end());
    if (outputs->size() != work.results.size()) return Broken("an operator's results differ");
    for (size_t i = 0; i < outputs->size(); ++i) {
      const Json& output = (*outputs)[i];
      const View& view = work.results[i];
      const bool is_new = !output.contains("storage") || output["storage"].is_null();
      if (is_new != (view.address.buffer != plan::kNoneOutput)) {
        return Broken("an operator's result is in other memory");
      }
      if (!is_new) continue;
      TRY_ASSIGN(const std::string dtype, JsonString(output, "dtype", kTrace));
      TRY_ASSIGN(const DType type, plan::ReadDType(dtype, kTrace));
      TRY_ASSIGN(const auto shape, JsonIntList(output, "shape", kTrace));
      TRY_ASSIGN(const auto strides, JsonIntList(output, "strides", kTrace));
      if (type != view.dtype || shape != view.shape || strides != view.strides) {
        return Broken(fmt::format("a result of {} has another shape", work.name));
      }
    }
    return {};
  }

  // ---- launches of kernels ----

  Status AddLaunch(const Json& step) {
    plan::Launch launch;
    TRY_ASSIGN(const int64_t image, JsonInt(step, "image", kTrace));
    TRY_ASSIGN(launch.kernel, JsonString(step, "kernel", kTrace));
    launch.image = static_cast<int>(image);
    const auto known = parts_.kernels.find({launch.image, launch.kernel});
    if (known == parts_.kernels.end() || launch.image != image) return Broken("an unknown kernel");
    record::Kernel kernel = known->second;
    TRY_ASSIGN(launch.grid, ReadDim(step, "grid"));
    TRY_ASSIGN(launch.block, ReadDim(step, "block"));
    TRY_ASSIGN(launch.cluster, ReadDim(step, "cluster"));
    TRY_ASSIGN(const int64_t shared, JsonInt(step, "shared", kTrace));
    TRY_ASSIGN(launch.cooperative, JsonBool(step, "cooperative", kTrace));
    TRY_ASSIGN(launch.early, JsonBool(step, "early", kTrace));
    if (shared < 0 || shared > INT32_MAX) return Broken("a launch with negative shared memory");
    launch.dynamic_shared = static_cast<uint32_t>(shared);
    kernel.max_dynamic_shared = parts_.device.shared_per_block_optin - kernel.static_shared;
    if (step.contains("shared_limit") && !step["shared_limit"].is_null()) {
      TRY_ASSIGN(const int64_t limit, JsonInt(step, "shared_limit", kTrace));
      if (limit < -1 || limit > INT32_MAX) return Broken("a launch with a damaged limit");
      kernel.max_dynamic_shared = static_cast<int>(limit);
    }
    kernel.nonportable_cluster = true;
    if (const auto violation = record::CheckLaunch(
            kernel,
            {launch.grid, launch.block, launch.cluster, launch.dynamic_shared, launch.cooperative},
            parts_.device)) {
      return Refuse({"illegal_launch", violation->message, kernel.name, false});
    }
    if (launch.early && !kernel.waits_for_launch) {
      return Refuse({"unordered_work",
                     fmt::format("{} may start before the previous launch has ended (launch_pdl), "
                                 "but never waits for it: gdc_wait() is missing",
                                 kernel.name),
                     kernel.name, false});
    }
    TRY(ReadParameters(step, kernel, launch));
    Add(std::move(launch));
    return {};
  }

  static Result<plan::Dim3> ReadDim(const Json& step, const char* key) {
    TRY_ASSIGN(const auto sizes, JsonIntList(step, key, kTrace));
    const auto fits = [](int64_t size) { return size >= 0 && size <= UINT32_MAX; };
    if (sizes.size() != 3 || !std::all_of(sizes.begin(), sizes.end(), fits)) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("a launch has a damaged \"{}\"", key));
    }
    return plan::Dim3{static_cast<uint32_t>(sizes[0]), static_cast<uint32_t>(sizes[1]),
                      static_cast<uint32_t>(sizes[2])};
  }

  /// Numbers are bytes; pointers and tensor maps are "at" an address.
  Status ReadParameters(const Json& step, const record::Kernel& kernel, plan::Launch& launch) {
    TRY_ASSIGN(const Json* parameters, JsonArray(step, "parameters", kTrace));
    if (parameters->size() != kernel.params.size()) return Broken("a launch lacks parameters");
    launch.parameters.resize(kernel.param_bytes);
    for (size_t i = 0; i < parameters->size(); ++i) {
      const Json& json = (*parameters)[i];
      const auto [offset, bytes] = kernel.params[i];
      if (!json.contains("at")) {
        TRY_ASSIGN(const std::string text, JsonString(json, "bytes", kTrace));
        TRY_ASSIGN(const std::string value, Base64Decode(text, kTrace));
        if (value.size() != bytes) return Broken("a parameter has another size");
        std::copy(value.begin(), value.end(), launch.parameters.begin() + offset);
        continue;
      }
      TRY_ASSIGN(const auto at, JsonIntList(json, "at", kTrace));
      if (at.size() != 2) return Broken("a parameter has a damaged address");
      TRY(CheckStorage(at[0]));
      const plan::Address address{static_cast<int>(at[0]), at[1]};
      if (json.contains("tensor_map")) {
        TRY(AddTensorMap(json["tensor_map"], offset, address, launch));
      } else {
        launch.relocations.push_back({offset, address});
      }
      if (bytes != (json.contains("tensor_map") ? plan::kTensorMapBytes : sizeof(uint64_t))) {
        return Broken("a parameter is no pointer");
      }
    }
    if (launch.tensor_maps.empty()) return {};
    for (const record::Kernel::Param& parameter : kernel.params) {
      launch.places.push_back(parameter.offset);
    }
    return {};
  }

  Status AddTensorMap(const Json& json, uint32_t offset, const plan::Address& address,
                      plan::Launch& launch) {
    Json placed = json;
    placed["at"] = offset;
    placed["address"] = {address.buffer, address.offset};
    TRY_ASSIGN(const auto maps,
               plan::ReadTensorMaps(Json{{"tensor_maps", Json::array({placed})}}, kTrace));
    if (const auto problem = plan::ProblemOf(maps[0].map); !problem.empty()) {
      return Refuse({"illegal_launch", fmt::format("a tensor descriptor is illegal: {}", problem),
                     launch.kernel, false});
    }
    launch.tensor_maps.push_back(maps[0]);
    return {};
  }

  // ---- calls of extensions ----

  Status AddCall(const Json& step) {
    TRY_ASSIGN(const int64_t call, JsonInt(step, "call", kTrace));
    TRY_ASSIGN(const auto storages, JsonIntList(step, "storages", kTrace));
    TRY_ASSIGN(const Json* made, JsonArray(step, "made", kTrace));
    if (call < 0 || static_cast<size_t>(call) >= parts_.calls.size()) {
      return Broken("an unknown call");
    }
    const Part& part = parts_.calls[static_cast<size_t>(call)];
    std::map<int, int> returned;  // the part's buffers that the program got
    for (const Json& pair : *made) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer() ||
          !pair[1].is_number_integer()) {
        return Broken("a call's results have another form");
      }
      TRY(CheckStorage(pair[1].get<int64_t>()));
      returned[pair[0].get<int>()] = pair[1].get<int>();
    }
    std::vector<int> buffers;
    for (size_t i = 0; i < part.plan.buffers.size(); ++i) {
      TRY_ASSIGN(const int buffer, BufferFor(part, static_cast<int>(i), storages, returned));
      buffers.push_back(buffer);
    }
    for (const plan::Node& node : part.plan.nodes) {
      plan::Node copy = node;
      std::visit([&](auto& work) { Renumber(work, buffers, part.image); }, copy.work);
      for (int& other : copy.after) other += static_cast<int>(first_of_step_);
      plan_.nodes.push_back(std::move(copy));
    }
    return {};
  }

  /// The plan's buffer for buffer `index` of a part.
  Result<int> BufferFor(const Part& part, int index, const std::vector<int64_t>& storages,
                        const std::map<int, int>& returned) {
    const plan::Buffer& buffer = part.plan.buffers[static_cast<size_t>(index)];
    if (buffer.kind == plan::BufferKind::kArgument) {
      const auto argument = static_cast<size_t>(buffer.argument);
      if (argument >= storages.size()) return tl::unexpected(Broken("a missing storage").error());
      TRY(CheckStorage(storages[argument]));
      return SameSize(static_cast<int>(storages[argument]), buffer);
    }
    if (const auto at = returned.find(index); at != returned.end()) {
      plan::Buffer& own = plan_.buffers[static_cast<size_t>(at->second)];
      if (own.kind != plan::BufferKind::kArgument) own.kind = buffer.kind;
      return SameSize(at->second, buffer);
    }
    if (buffer.kind == plan::BufferKind::kSymbol) {
      const auto [at, is_new] = symbols_.try_emplace({part.image + buffer.image, buffer.symbol},
                                                     static_cast<int>(plan_.buffers.size()));
      if (!is_new) return at->second;
    }
    plan_.buffers.push_back(buffer);
    if (buffer.kind == plan::BufferKind::kSymbol) plan_.buffers.back().image += part.image;
    return static_cast<int>(plan_.buffers.size()) - 1;
  }

  Result<int> SameSize(int index, const plan::Buffer& buffer) const {
    if (plan_.buffers[static_cast<size_t>(index)].bytes == buffer.bytes) return index;
    return Fail(ErrorCode::kInvalidArgument, "a storage of a call has another size");
  }

  static void Renumber(plan::Address& address, const std::vector<int>& buffers) {
    if (address.buffer >= 0) address.buffer = buffers[static_cast<size_t>(address.buffer)];
  }

  template <typename Work>
  static void Renumber(Work& work, const std::vector<int>& buffers, int image) {
    if constexpr (std::is_same_v<Work, plan::Launch>) work.image += image;
    plan::ForEachAddress(work, [&](plan::Address& address) { Renumber(address, buffers); });
  }

  const Parts& parts_;
  plan::Plan plan_;
  size_t storages_ = 0;       // the first buffers of the plan
  size_t first_of_step_ = 0;  // node
  std::vector<int> last_;     // nodes for which the next step waits
  std::map<std::pair<int, std::string>, int> symbols_;
  std::optional<Refusal> refusal_;
};

}  // namespace

Refusal Damaged(std::string_view problem) {
  return {"host_crash", fmt::format("the program damaged the recording process: {}", problem), "",
          false};
}

Result<Joined> Join(const Json& trace, const Parts& parts) { return Joiner(parts).Run(trace); }

}  // namespace cupel::trace
