// Tested by race_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/check/data_loads.h"

#include <algorithm>

#include "emu/check/value_flow.h"
#include "emu/core/kernel.h"
#include "emu/core/kernel_text.h"

namespace cupel::emu {
namespace {

using ptx::Instr;
using ptx::Modifier;
using ptx::Opcode;

constexpr size_t kMostWork = size_t{1} << 26;  // loads times instructions

bool IsStrongLoad(const Instr& instr) {
  return instr.op == Opcode::kLd &&
         (instr.Has(Modifier::kVolatile) || instr.Has(Modifier::kRelaxed));
}

bool Compares(const Instr& instr) {
  return instr.op == Opcode::kSetp || instr.op == Opcode::kSet || instr.op == Opcode::kTestp ||
         instr.op == Opcode::kVote || instr.op == Opcode::kMatch;
}

/// Global memory, or memory of any kind.
bool StoresResult(const Instr& instr) {
  return instr.op == Opcode::kSt && !instr.Has(Modifier::kShared) && !instr.Has(Modifier::kLocal);
}

class Search {
 public:
  explicit Search(const KernelText& text) : text_(text), flow_(text) {
    users_.resize(flow_.values());
    for (size_t i = 0; i < flow_.instructions(); ++i) {
      for (const int value : flow_.of(i).reads) users_[static_cast<size_t>(value)].push_back(i);
      if (flow_.of(i).guard >= 0) users_[static_cast<size_t>(flow_.of(i).guard)].push_back(i);
    }
  }

  bool IsData(size_t load) const {
    std::vector<bool> reached(flow_.values(), false);
    std::vector<int> rest = flow_.of(load).writes;
    for (const int value : rest) reached[static_cast<size_t>(value)] = true;
    bool stored = false;
    while (!rest.empty()) {
      const int value = rest.back();
      rest.pop_back();
      for (const size_t user : users_[static_cast<size_t>(value)]) {
        const Instr& instr = text_.function.body[user];
        const InstrFlow& use = flow_.of(user);
        if (use.guard == value || use.is_jump || Compares(instr)) return false;
        if (StoresResult(instr) && !IsAddress(instr, value)) {
          stored = true;
        } else if (use.rule == ValueRule::kByLane || use.rule == ValueRule::kAcross) {
          for (const int written : use.writes) {
            if (reached[static_cast<size_t>(written)]) continue;
            reached[static_cast<size_t>(written)] = true;
            rest.push_back(written);
          }
        } else {
          return false;  // an address, or memory from which a decision may read it
        }
      }
    }
    return stored;
  }

 private:
  /// Whether the value is in the address of an access, which is its first operand.
  bool IsAddress(const Instr& instr, int value) const {
    const int reg = instr.operands.empty() ? -1 : instr.operands.front().reg;
    return reg >= 0 && text_.values[static_cast<size_t>(reg)] == value;
  }

  const KernelText& text_;
  const ValueFlow flow_;
  std::vector<std::vector<size_t>> users_;  // by value
};

/// By instruction.
std::vector<bool> Find(const KernelText& text) {
  const std::vector<Instr>& body = text.function.body;
  std::vector<bool> found(body.size(), false);
  const auto loads = static_cast<size_t>(std::ranges::count_if(body, &IsStrongLoad));
  if (text.has_calls || loads == 0 || loads * body.size() > kMostWork) return found;
  const Search search(text);
  for (size_t i = 0; i < body.size(); ++i) found[i] = IsStrongLoad(body[i]) && search.IsData(i);
  return found;
}

}  // namespace

bool DataLoads::Contains(const Kernel& kernel, size_t source) {
  const std::lock_guard lock(mutex_);
  const auto [at, added] = known_.try_emplace(&kernel);
  if (added && kernel.text != nullptr) at->second = Find(*kernel.text);
  return source < at->second.size() && at->second[source];
}

}  // namespace cupel::emu
