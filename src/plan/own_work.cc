// SPDX-License-Identifier: Apache-2.0
#include "plan/own_work.h"

#include <algorithm>
#include <map>
#include <set>
#include <variant>

namespace cupel::plan {
namespace {

/// From the outputs backwards: the buffers that have a part in them.
class Backwards {
 public:
  explicit Backwards(const Plan& plan) : plan_(plan) {
    for (const View& output : plan.outputs) {
      Need(output.address.buffer);
      results_.insert(output.address.buffer);
    }
    for (const Node& node : plan.nodes) {
      const auto* upload = std::get_if<Upload>(&node.work);
      if (upload == nullptr) continue;
      ForEachPointer(*upload, [&](const Address& address) {
        pointers_[upload->to.buffer].insert(address.buffer);
      });
    }
  }

  OwnWork Run() {
    for (size_t i = plan_.nodes.size(); i > static_cast<size_t>(plan_.prepared); --i) {
      std::visit([&](const auto& work) { Pass(work); }, plan_.nodes[i - 1].work);
    }
    return found_;
  }

 private:
  void Need(int buffer) {
    if (buffer >= 0) needed_.insert(buffer);
  }
  bool IsNeeded(const Address& address) const { return needed_.contains(address.buffer); }
  /// Arguments are read-only, unless they are the result.
  bool MayWrite(int buffer) const {
    return plan_.buffers[static_cast<size_t>(buffer)].kind != BufferKind::kArgument ||
           results_.contains(buffer);
  }

  /// Bytes of a whole buffer are replaced: what was there before has no part.
  void Replace(const Address& to, uint64_t bytes) {
    if (to.offset == 0 && bytes >= plan_.buffers[static_cast<size_t>(to.buffer)].bytes) {
      needed_.erase(to.buffer);
    }
  }
  void Replace(const View& to) {
    int64_t expected = 1;
    for (size_t i = to.shape.size(); i > 0; --i) {
      if (to.shape[i - 1] != 1 && to.strides[i - 1] != expected) return;
      expected *= to.shape[i - 1];
    }
    Replace(to.address, ElementsOf(to) * static_cast<uint64_t>(SizeOf(to.dtype)));
  }

  void Pass(const Launch& launch) {
    std::set<int> reached;
    ForEachPointer(launch, [&](const Address& address) { Reach(address.buffer, reached); });
    const auto writes_needed = [&](int buffer) {
      return needed_.contains(buffer) && MayWrite(buffer);
    };
    if (std::none_of(reached.begin(), reached.end(), writes_needed)) return;
    found_.kernels = true;
    for (const int buffer : reached) Need(buffer);
  }
  void Reach(int buffer, std::set<int>& reached) const {
    if (!reached.insert(buffer).second) return;
    const auto more = pointers_.find(buffer);
    if (more == pointers_.end()) return;
    for (const int target : more->second) Reach(target, reached);
  }

  void Pass(const Gemm& gemm) {
    bool is_needed = IsNeeded(gemm.c);
    for (const auto& product : gemm.pointers) is_needed |= IsNeeded(product[2]);
    if (!is_needed) return;
    found_.products = true;
    ForEachAddress(gemm, [&](const Address& address) { Need(address.buffer); });
  }

  void Pass(const Copy& copy) {
    if (!IsNeeded(copy.to)) return;
    Replace(copy.to, copy.bytes);
    Need(copy.from.buffer);
  }
  void Pass(const CopyView& copy) {
    if (!IsNeeded(copy.to.address)) return;
    Replace(copy.to);
    Need(copy.from.address.buffer);
  }
  void Pass(const Fill& fill) {
    if (IsNeeded(fill.to)) Replace(fill.to, fill.count * fill.pattern.size());
  }
  void Pass(const Upload& upload) {
    if (IsNeeded(upload.to)) Replace(upload.to, upload.bytes.size());
  }

  void Pass(const Operator& work) {
    bool is_needed = false;
    ForEachView(work, [&](const View& view, bool is_written) {
      is_needed |= is_written && IsNeeded(view.address);
    });
    if (!is_needed) return;
    for (const View& result : work.results) {
      if (result.address.buffer != kNoneOutput && IsNeeded(result.address)) Replace(result);
    }
    for (const OperatorValue& argument : work.arguments) {
      ForEachViewOf(argument, false,
                    [&](const View& view, bool /*is_written*/) { Need(view.address.buffer); });
    }
  }

  const Plan& plan_;
  std::map<int, std::set<int>> pointers_;  // by buffer: those whose addresses it contains
  std::set<int> needed_, results_;
  OwnWork found_;
};

}  // namespace

OwnWork OwnWorkIn(const Plan& plan) { return Backwards(plan).Run(); }

}  // namespace cupel::plan
