// Providers for web services: a wire format over HTTP.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "llm/http.h"
#include "llm/provider.h"
#include "llm/secret.h"
#include "llm/wire.h"

namespace cupel::llm {

struct Service {
  std::string name;  // in messages: "anthropic (api.anthropic.com)"
  WireFormat format = WireFormat::kOpenAiChat;
  Url base;
  std::string model;
  std::string key_variable;  // for remedies; empty: none
  Secret key;
  bool allow_plain_http = false;  // also to other machines
  HttpLimits limits;
};

class ServiceProvider : public Provider {
 public:
  /// Error kInvalidArgument: http:// to another machine without allow_plain_http.
  static Result<std::unique_ptr<Provider>> Create(Service service);
  Reply Ask(const Request& request, const Call& call) override;
  bool Metered() const override { return true; }

 private:
  explicit ServiceProvider(Service service) : service_(std::move(service)) {}
  const Service service_;
};

}  // namespace cupel::llm
