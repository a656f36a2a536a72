// SPDX-License-Identifier: Apache-2.0
#include "llm/service.h"

#include <fmt/format.h>

#include <utility>

#include "llm/sse.h"

namespace cupel::llm {
namespace {

/// Reads the body of an answer: a stream of events, or one JSON text if the server does not stream.
class BodyReader {
 public:
  BodyReader(const Wire& wire, const Call& call)
      : wire_(wire),
        call_(call),
        sse_([this](std::string_view, std::string_view data) { return Event(data); }) {}
  BodyReader(const BodyReader&) = delete;
  BodyReader& operator=(const BodyReader&) = delete;

  /// Returns false if no more bytes are needed.
  bool Feed(std::string_view bytes) {
    if (form_ == Form::kUnknown) {
      const size_t first = bytes.find_first_not_of(" \t\r\n");
      if (first == std::string_view::npos) return true;
      form_ = bytes[first] == '{' || bytes[first] == '[' ? Form::kOneText : Form::kEvents;
    }
    if (form_ == Form::kOneText) {
      text_ += bytes;
      return true;
    }
    return Note(sse_.Feed(bytes));
  }

  /// Call at the proper end of the transfer.
  void Finish() {
    if (form_ == Form::kEvents) Note(sse_.Finish());
    if (form_ == Form::kOneText) Event(text_);
  }

  const Incoming& incoming() const { return incoming_; }
  Incoming Take() { return std::move(incoming_); }
  const std::optional<Error>& malformed() const { return malformed_; }

 private:
  enum class Form { kUnknown, kEvents, kOneText };

  bool Note(const Result<bool>& more) {
    if (more) return *more;
    malformed_ = more.error();
    return false;
  }

  bool Event(std::string_view data) {
    if (data == "[DONE]") {
      incoming_.closed = true;
      incoming_.ended = incoming_.ended || !incoming_.answer.text.empty();
      return false;
    }
    Result<Json> json = ParseJson(data, "an event of the answer");
    if (!json) return Note(tl::unexpected(json.error()));
    // Without streaming, Gemini sends an array of the events.
    if (json->is_array()) {
      for (const Json& item : *json) wire_.Read(item, incoming_);
    } else {
      wire_.Read(*json, incoming_);
    }
    const std::string& text = incoming_.answer.text;
    if (call_.on_text && text.size() > sent_) call_.on_text(std::string_view{text}.substr(sent_));
    sent_ = text.size();
    return !incoming_.closed && !incoming_.error;
  }

  const Wire& wire_;
  const Call& call_;
  SseParser sse_;
  Form form_ = Form::kUnknown;
  std::string text_;
  Incoming incoming_;
  std::optional<Error> malformed_;
  size_t sent_ = 0;
};

ServiceError ErrorOfStatus(const HttpResult& http) {
  ServiceError error;
  const Result<Json> json = ParseJson(http.error_body, "the answer");
  if (json) {
    error = ReadServiceError(*json);
  } else {
    error.message = http.error_body;
  }
  error.status = http.status;
  if (http.retry_after) error.retry_after = http.retry_after;
  return error;
}

Failure FailureOf(ServiceError error, const Service& service) {
  // A faulty or malicious server may send the key back.
  error.message = service.key.Redact(std::move(error.message));
  error.type = service.key.Redact(std::move(error.type));
  return Classify(error, service.name, service.key_variable);
}

/// The failure for an incomplete answer. It may be retried.
Failure CutOff(const HttpResult& http, const BodyReader& reader, const Service& service) {
  const Error cause = reader.malformed() ? *reader.malformed()
                      : http.error       ? *http.error
                                         : Error{ErrorCode::kIo, "it ended too early", ""};
  Failure failure;
  failure.retry = cause.code != ErrorCode::kCancelled;
  failure.error = cause;
  if (cause.code == ErrorCode::kCancelled) return failure;
  const size_t bytes = reader.incoming().answer.text.size();
  failure.error.message =
      fmt::format("the answer of {} was cut after {} bytes of text: {}", service.name, bytes,
                  service.key.Redact(Shown(cause.message)));
  if (http.error && http.error->code == ErrorCode::kInvalidArgument) failure.retry = false;
  if (failure.error.remedy.empty()) failure.error.remedy = "try again";
  return failure;
}

}  // namespace

Result<std::unique_ptr<Provider>> ServiceProvider::Create(Service service) {
  if (!service.base.https && !service.base.Loopback() && !service.allow_plain_http) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} uses plain http: others on the network could read the key and the "
                            "prompts",
                            service.base.Text()),
                "use https, or allow it with the option http=plain");
  }
  return std::unique_ptr<Provider>(new ServiceProvider(std::move(service)));
}

Reply ServiceProvider::Ask(const Request& request, const Call& call) {
  const Wire& wire = WireOf(service_.format, service_.base.host == "api.openai.com");
  HttpRequest http_request;
  http_request.base = service_.base;
  http_request.path = wire.Path(service_.model);
  if (!wire.VersionHeader().empty()) http_request.headers.emplace_back(wire.VersionHeader());
  http_request.key_header = wire.KeyHeader();
  http_request.key = &service_.key;
  http_request.body = DumpJson(wire.Body(request, service_.model));
  http_request.limits = service_.limits;

  BodyReader reader(wire, call);
  const Result<HttpResult> http = HttpPost(
      http_request, call, [&reader](std::string_view bytes) { return reader.Feed(bytes); });
  if (!http) return Failed(http.error());
  Reply reply;
  if (http->status == 0) {
    const ErrorCode code = http->error->code;
    const bool retry = code != ErrorCode::kCancelled && code != ErrorCode::kEnvironment;
    reply.failure = Failure{*http->error, retry, {}};
    reply.failure->error.message =
        fmt::format("cannot ask {}: {}", service_.name, http->error->message);
    reply.billing = http->sent ? Billing::kUnknown : Billing::kNone;
    return reply;
  }
  if (http->status < 200 || http->status > 299) {
    reply.failure = FailureOf(ErrorOfStatus(*http), service_);
    return reply;
  }
  if (http->whole) reader.Finish();
  // An ended answer is complete even if the connection was lost afterwards.
  const bool ended = reader.incoming().ended && !reader.incoming().error;
  if (!ended) {
    reply.failure = reader.incoming().error ? FailureOf(*reader.incoming().error, service_)
                                            : CutOff(*http, reader, service_);
  }
  Incoming incoming = reader.Take();
  reply.billing = ended && incoming.has_usage ? Billing::kReported : Billing::kUnknown;
  reply.answer = std::move(incoming.answer);
  reply.answer.text = service_.key.Redact(std::move(reply.answer.text));
  reply.answer.reasoning = service_.key.Redact(std::move(reply.answer.reasoning));
  reply.answer.model = Shown(service_.key.Redact(std::move(reply.answer.model)), 200);
  return reply;
}

}  // namespace cupel::llm
