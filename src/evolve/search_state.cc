// SPDX-License-Identifier: Apache-2.0
#include "evolve/search_state.h"

#include <utility>

namespace cupel::evolve {

Json ToJson(const SearchState& state) {
  return Json{{"generation", state.generation},
              {"ensemble", state.ensemble.State()},
              {"hints", state.hints.State()},
              {"islands", StateOf(state.islands)},
              {"reads", state.reads}};
}

Status Restore(const Json& json, SearchState& state) {
  constexpr const char* kWhat = "the run's state";
  TRY_ASSIGN(const int64_t generation, JsonInt(json, "generation", kWhat));
  for (const char* part : {"ensemble", "hints", "islands"}) {
    if (!json.contains(part)) {
      return Fail(ErrorCode::kInvalidArgument, std::string(kWhat) + " lacks \"" + part + "\"",
                  "resume a run of cupel optimize --model");
    }
  }
  state.generation = static_cast<int>(generation);
  TRY(state.ensemble.Restore(json["ensemble"]));
  TRY_ASSIGN(state.hints, Hints::FromState(json["hints"]));
  TRY_ASSIGN(state.islands, IslandsFromState(json["islands"]));
  TRY_ASSIGN(state.reads, JsonBool(json, "reads", kWhat));
  return {};
}

}  // namespace cupel::evolve
