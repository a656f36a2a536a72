// Tested by profile_test.cc.
// SPDX-License-Identifier: Apache-2.0
#include "emu/cost/profile.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "emu/core/code.h"
#include "emu/core/op.h"
#include "emu/core/op_profile.h"
#include "emu/core/source_line.h"
#include "emu/core/warp.h"
#include "emu/core/worker.h"
#include "emu/cost/regions.h"
#include "emu/isa/instructions.h"
#include "ptx/parser.h"

namespace cupel::emu {
namespace {

using records::InstructionClass;
using records::LaunchCounters;
using records::LineCounters;
using records::WorkCounts;

constexpr size_t kLinesKept = 64;  // for each launch
// One retry of a float atomic in shared memory (bench/calibrate on an H200: 20 clocks for each lane
// that accesses the same word).
constexpr uint64_t kRetryClocks = 20;

void Visit(OpVisits& visits, uint32_t lanes) {
  if (lanes == 0) return;
  ++visits.times;
  visits.lanes += static_cast<uint64_t>(__builtin_popcount(lanes));
}

/// True if a warp-level instruction has to wait for lanes, and therefore runs again.
bool RunsAgain(const Warp& warp, const Op* op) {
  if (warp.stop == Stop::kContinue) return warp.pc == op;
  if (warp.stop != Stop::kSwitch || warp.others == 0) return false;
  const Group& parked = warp.other[static_cast<size_t>(warp.others - 1)];
  return parked.pc == op && parked.state == GroupState::kSync;
}

Handler GuardOf(const Code& code) {
  return code.guard != nullptr ? code.guard : code.handlers->Find(Micro::kGuard)->full;
}

/// Runs a warp op by op and observes each op.
class Observer {
 public:
  explicit Observer(Warp& warp)
      : warp_(warp),
        code_(warp.worker->launch->code->ops.data()),
        profile_(warp.counting ? warp.worker->profile.get() : nullptr),
        guard_(GuardOf(*warp.worker->launch->code)),
        tracks_(!warp.worker->launch->request->only.empty()) {}

  /// Counts one op and what it guards, and runs it. Inline, so that RunObserved keeps it in
  /// registers.
  [[gnu::always_inline]] inline const Op* Step(const Op* op) {
    const uint32_t active = warp_.active;
    const int others = warp_.others;
    if (op->full == guard_) {
      const uint32_t lanes = (MaskAt(warp_, op->src[0]) ^ op->aux) & active;
      for (uint32_t i = 1; lanes != 0 && i <= op->count; ++i) {
        Track(op + i, lanes);
        if (profile_ != nullptr) Visit(VisitsOf(op + i), lanes);
      }
    }
    Track(op, active);
    const Op* next = active == kFullMask ? op->full(warp_, op) : op->masked(warp_, op);
    if (profile_ == nullptr || (next == nullptr && RunsAgain(warp_, op))) return next;
    OpVisits& visits = VisitsOf(op);
    Visit(visits, active);
    visits.splits += next == nullptr && warp_.stop == Stop::kContinue && warp_.others > others &&
                     (warp_.active & ~active) == 0;
    return next;
  }

 private:
  OpVisits& VisitsOf(const Op* op) { return profile_->visits[static_cast<size_t>(op - code_)]; }
  void Track(const Op* op, uint32_t lanes) {
    const std::vector<bool>& stores = warp_.worker->launch->code->stores;
    if (tracks_ && stores[static_cast<size_t>(op - code_)]) {
      warp_.worker->tracker.Note(warp_, op, lanes);
    }
  }

  Warp& warp_;
  const Op* code_;
  Profile* profile_;
  Handler guard_;
  bool tracks_;
};

/// Scales counts of `counted` blocks to all blocks.
struct Scale {
  uint64_t blocks, counted;
  uint64_t operator()(uint64_t value) const {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(value) * blocks / counted);
  }
};

void ScaleWork(const Scale& scale, WorkCounts* work) {
  for (uint64_t* value :
       {&work->warp_instructions,  &work->lane_instructions, &work->branches,
        &work->divergent_branches, &work->load_requests,     &work->store_requests,
        &work->load_sectors,       &work->store_sectors,     &work->missed_requests,
        &work->missed_sectors,     &work->load_lines,        &work->store_lines,
        &work->load_bytes,         &work->store_bytes,       &work->touched_bytes,
        &work->shared_requests,    &work->shared_wavefronts, &work->shared_ideal_wavefronts,
        &work->atomic_requests,    &work->atomic_lanes,      &work->atomic_sectors,
        &work->atomic_turns,       &work->barriers}) {
    *value = scale(*value);
  }
}

/// Sums over lines. Looks up names once per location.
class Lines {
 public:
  explicit Lines(const Code& code) : code_(code) {}

  size_t IndexOf(const ptx::Location& location) {
    const auto [known, is_new] =
        by_location_.try_emplace({location.file, location.line, location.inlined_at}, 0);
    if (!is_new) return known->second;
    SourceLine line = LineOf(*code_.module, location);
    const auto [place, is_new_line] = by_line_.try_emplace({line.file, line.line}, lines_.size());
    if (is_new_line) {
      lines_.push_back({std::move(line.file), line.line, {}, 0});
      strides_.emplace_back();
    }
    return known->second = place->second;
  }
  LineCounters& operator[](size_t i) { return lines_[i]; }
  StrideVote& stride(size_t i) { return strides_[i]; }

  /// The lines with the most work, scaled.
  std::vector<LineCounters> Take(const Scale& scale) {
    for (size_t i = 0; i < lines_.size(); ++i) {
      ScaleWork(scale, &lines_[i].work);
      lines_[i].lane_stride = strides_[i].stride;
    }
    std::erase_if(lines_, [](const LineCounters& l) { return l.work.warp_instructions == 0; });
    // Memory is weighted by its approximate cost, so that a line with few but slow accesses is
    // kept.
    const auto weight = [](const LineCounters& l) {
      return l.work.warp_instructions + 4 * l.work.sectors() + 4 * l.work.shared_wavefronts;
    };
    std::sort(lines_.begin(), lines_.end(), [&](const LineCounters& a, const LineCounters& b) {
      return std::tuple(weight(b), a.file, a.line) < std::tuple(weight(a), b.file, b.line);
    });
    if (lines_.size() > kLinesKept) lines_.resize(kLinesKept);
    return std::move(lines_);
  }

 private:
  const Code& code_;
  std::map<std::tuple<int, int, int>, size_t> by_location_;
  std::map<std::pair<std::string, int>, size_t> by_line_;
  std::vector<LineCounters> lines_;
  std::vector<StrideVote> strides_;
};

/// The most atomics on one line in the whole launch. Counts from several counted blocks are scaled
/// to all blocks; counts from one block are not.
uint64_t Hottest(const Profile& profile, const Scale& scale) {
  uint64_t most = 0;
  for (const auto& [line, hot] : profile.atomics) {
    most = std::max(most, hot.blocks > 1 ? scale(hot.turns) : hot.turns);
  }
  return most;
}

/// The regions of the kernel. If calls were inlined, the PTX text does not have the kernel's
/// instructions, and its basic blocks are taken instead.
std::vector<Region> RegionsOfCode(const Code& code, const std::string& demangled) {
  for (const ptx::Function& function : code.module->functions) {
    if (function.is_entry && function.body.size() == code.instructions.size() &&
        ptx::Demangle(function.name) == demangled) {
      return RegionsOf(function);
    }
  }
  std::vector<Region> regions;
  regions.reserve(code.chains.size());
  for (const Chain& chain : code.chains) regions.push_back({chain, {}, {}, {}});
  return regions;
}

/// How often warps run one iteration and how often kUnrolled together, if they run `times`
/// iterations of a loop that they leave `exits` times. Two iterations of the rest run together.
struct Iterations {
  uint64_t single = 0, unrolled = 0;
};
Iterations Unroll(uint64_t times, uint64_t exits) {
  const uint64_t entries = std::max<uint64_t>(exits, 1);
  const uint64_t trips = times / entries, longer = times % entries;
  const auto single = [](uint64_t count) { return (count % kUnrolled + 1) / 2; };
  return {(entries - longer) * single(trips) + longer * single(trips + 1),
          (entries - longer) * (trips / kUnrolled) + longer * ((trips + 1) / kUnrolled)};
}

/// The count of a region is the maximum over its instructions: guards only reduce counts.
void SumChains(const Code& code, const std::vector<Region>& regions, const Profile& profile,
               const Scale& scale, LaunchCounters* counters) {
  const auto visits = [&](size_t op) {
    return op < profile.visits.size() ? profile.visits[op].times : 0;
  };
  for (const Region& region : regions) {
    uint64_t times = 0, missed = 0, loaded = 0;
    const size_t end = std::min<size_t>(region.chain.end, code.instructions.size());
    for (size_t i = region.chain.begin; i < end; ++i) {
      const Code::Instruction& instruction = code.instructions[i];
      times = std::max(times, visits(instruction.first_op));
      for (size_t op = instruction.first_op; op < instruction.end_op; ++op) {
        missed += profile.accesses[op].work.missed_requests;
      }
    }
    for (const uint32_t load : region.loads) loaded += visits(code.instructions[load].end_op - 1);
    Iterations iterations{times, 0};
    if (region.unrolled.end != 0 && end < code.instructions.size()) {
      iterations = Unroll(times, visits(code.instructions[end].first_op));
    }
    const auto sum = [&](uint32_t Chain::* member) {
      return iterations.single * region.chain.*member +
             iterations.unrolled * region.unrolled.*member;
    };
    // A warp whose lanes all skip a guarded load does not wait for it.
    uint64_t loads = sum(&Chain::loads);
    if (!region.loads.empty()) loads = std::min(loads, loaded);
    counters->chain_clocks += sum(&Chain::clocks);
    counters->chain_shared_loads += sum(&Chain::shared_loads);
    counters->chain_loads += loads;
    counters->chain_misses += std::min(loads, missed);
  }
  for (uint64_t* sum : {&counters->chain_clocks, &counters->chain_shared_loads,
                        &counters->chain_loads, &counters->chain_misses}) {
    *sum = scale(*sum);
  }
}

}  // namespace

void StrideVote::Cast(int64_t seen, uint64_t in_block) {
  if (in_block > block) return;
  if (in_block < block) *this = {seen, 0, in_block};
  if (votes == 0) stride = seen;
  votes = seen == stride ? votes + 1 : votes - 1;
}

Profile::Profile(const Code& code) : visits(code.ops.size()), accesses(code.ops.size()) {}

void Profile::Add(const Profile& other) {
  tensor_operations += other.tensor_operations;
  for (size_t i = 0; i < visits.size(); ++i) {
    visits[i].times += other.visits[i].times;
    visits[i].lanes += other.visits[i].lanes;
    visits[i].splits += other.visits[i].splits;
    accesses[i].work.Add(other.accesses[i].work);
    const StrideVote& vote = other.accesses[i].stride;
    StrideVote& mine = accesses[i].stride;
    if (vote.block < mine.block) mine = vote;
  }
  for (const auto& [line, hot] : other.atomics) {
    HotLine& mine = atomics[line];
    mine.turns += hot.turns;
    mine.blocks += hot.blocks;
  }
}

void RunObserved(Warp& warp) {
  Observer observer(warp);
  do {
    const Op* op = warp.pc;
    warp.stop = Stop::kRunning;
    while (op != nullptr) op = observer.Step(op);
  } while (warp.stop == Stop::kContinue);
}

const Op* StepObserved(Warp& warp, const Op* op) { return Observer(warp).Step(op); }

void Summarize(const Code& code, const Profile& profile, uint64_t blocks, uint64_t counted,
               LaunchCounters* counters) {
  if (counted == 0) return;
  const Scale scale{blocks, counted};
  Lines lines(code);
  const std::vector<Region> regions = RegionsOfCode(code, counters->kernel);
  std::vector<bool> is_merged(code.instructions.size(), false);
  for (const Region& region : regions) {
    for (const uint32_t store : region.merged_stores) is_merged[store] = true;
  }
  uint64_t merged_sectors = 0;
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    const Code::Instruction& instruction = code.instructions[i];
    const size_t begin = instruction.first_op;
    if (begin >= profile.visits.size()) break;
    const OpVisits& first = profile.visits[begin];
    if (first.times == 0) continue;
    const size_t line = lines.IndexOf(code.sources[i].location);
    WorkCounts work;
    work.warp_instructions = first.times;
    work.lane_instructions = first.lanes;
    for (size_t op = begin; op < instruction.end_op; ++op) {
      work.lane_instructions = std::min(work.lane_instructions, profile.visits[op].lanes);
      work.divergent_branches += profile.visits[op].splits;
      work.Add(profile.accesses[op].work);
      const StrideVote& vote = profile.accesses[op].stride;
      if (vote.votes > lines.stride(line).votes) lines.stride(line) = vote;
    }
    if (is_merged[i]) {
      merged_sectors += work.store_sectors;
      work.store_sectors = work.store_lines = 0;
    }
    if (instruction.is_branch) work.branches = first.times;
    if (instruction.kind == InstructionClass::kBarrier) work.barriers = first.times;
    lines[line].work.Add(work);
    counters->work.Add(work);
    counters->mix[static_cast<size_t>(instruction.kind)] += first.times;
    counters->tensor_operations += first.times * instruction.tensor_operations;
    if (instruction.is_free) counters->free_instructions += first.times;
    if (instruction.is_retried) counters->retry_clocks += kRetryClocks * work.shared_wavefronts;
  }
  SumChains(code, regions, profile, scale, counters);
  counters->global_store_sectors -= std::min(counters->global_store_sectors, scale(merged_sectors));
  ScaleWork(scale, &counters->work);
  counters->global_requests = counters->work.load_requests + counters->work.store_requests;
  for (uint64_t& count : counters->mix) count = scale(count);
  counters->tensor_operations = scale(counters->tensor_operations + profile.tensor_operations);
  counters->retry_clocks = scale(counters->retry_clocks);
  counters->free_instructions = scale(counters->free_instructions);
  counters->hottest_atomics = Hottest(profile, scale);
  counters->lines = lines.Take(scale);
}

}  // namespace cupel::emu
