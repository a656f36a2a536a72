// SPDX-License-Identifier: Apache-2.0
#include "llm/recorded.h"

#include <utility>

namespace cupel::llm {
namespace {

class RecordedAsker final : public Asker {
 public:
  RecordedAsker(Client& client, Record& record, std::stop_token stop)
      : client_(client), record_(record), stop_(std::move(stop)) {}

  Result<Answer> Ask(std::string_view role, const Request& request, const Call& call) override {
    TRY_ASSIGN(std::optional<Answer> known, record_.Known(HashOf(request)));
    if (known) {
      if (call.on_text) call.on_text(known->text);
      return *std::move(known);
    }
    Call named = call;
    named.role = role;
    if (!named.stop.stop_possible()) named.stop = stop_;
    return client_.Ask(request, named);
  }
  const std::string& model() const override { return client_.name(); }
  std::string HashOf(const Request& request) const override {
    return llm::HashOf(client_.Complete(request));
  }

 private:
  Client& client_;
  Record& record_;
  const std::stop_token stop_;
};

}  // namespace

Result<std::unique_ptr<RecordedModels>> RecordedModels::Open(const std::vector<ModelSpec>& specs,
                                                             Record& record,
                                                             const RecordedOptions& options) {
  std::unique_ptr<RecordedModels> opened(new RecordedModels(options.limits));
  opened->budget_.Charge(options.spent);
  TRY_ASSIGN(opened->prices_, Prices::Load());
  OpenOptions open_options;
  open_options.prices = &opened->prices_;
  open_options.budget = &opened->budget_;
  open_options.sink = &record;
  open_options.retry = options.retry;
  open_options.seed = options.seed;
  open_options.replay = options.replay;
  TRY_ASSIGN(opened->models_, OpenModels(specs, open_options));
  for (const auto& client : opened->models_.clients) {
    opened->askers_.push_back(std::make_unique<RecordedAsker>(*client, record, options.stop));
  }
  return opened;
}

std::vector<Asker*> RecordedModels::askers() const {
  std::vector<Asker*> askers;
  askers.reserve(askers_.size());
  for (const auto& asker : askers_) askers.push_back(asker.get());
  return askers;
}

}  // namespace cupel::llm
