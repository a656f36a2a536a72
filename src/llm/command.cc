// SPDX-License-Identifier: Apache-2.0
#include "llm/command.h"

#include <fmt/format.h>

#include <filesystem>

#include "os/process.h"
#include "os/programs.h"

namespace cupel::llm {
namespace fs = std::filesystem;
namespace {

Result<std::string> FindProgram(const std::string& name) {
  if (const auto found = os::FindProgram(name)) return found->string();
  return Fail(ErrorCode::kNotFound,
              fmt::format("cannot find the program {} for a model", Shown(name, 100)),
              "give its full path, or install it");
}

class Command : public Provider {
 public:
  explicit Command(CommandOptions options) : options_(std::move(options)) {}
  bool Metered() const override { return false; }

  Reply Ask(const Request& request, const Call& call) override {
    os::SpawnOptions spawn;
    spawn.argv = options_.argv;
    spawn.env = os::CurrentEnvironment();
    spawn.stop = call.stop;
    const Result<os::RunResult> run =
        os::Run(std::move(spawn), options_.deadline, options_.max_bytes, PlainText(request));
    if (!run) return Failed(run.error());
    Reply reply;
    reply.answer.text = run->out;
    reply.answer.model = request.model;
    reply.answer.stop = Stop::kEnd;
    if (auto problem = Problem(*run)) {
      reply.answer.stop = Stop::kOther;
      // Do not retry: failures of programs are usually permanent.
      reply.failure = Failure{std::move(*problem), false, {}};
    } else if (call.on_text) {
      call.on_text(run->out);
    }
    return reply;
  }

 private:
  std::optional<Error> Problem(const os::RunResult& run) const {
    const std::string& program = options_.argv[0];
    if (run.status.timed_out) {
      return Error{ErrorCode::kTimeout, fmt::format("{} was {}", program, run.status.Describe()),
                   "allow more time with timeout=SECONDS"};
    }
    if (!run.status.exited || run.status.code != 0) {
      const size_t from = run.err.size() > 300 ? run.err.size() - 300 : 0;
      return Error{ErrorCode::kIo,
                   fmt::format("{} ended with {}: {}", program, run.status.Describe(),
                               Shown(std::string_view{run.err}.substr(from))),
                   "run it by hand with a prompt on its standard input"};
    }
    if (run.out_truncated) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{} answered more than {} bytes", program, options_.max_bytes),
                   "make it print only its answer"};
    }
    if (run.out.find_first_not_of(" \t\r\n") == std::string::npos) {
      return Error{ErrorCode::kIo, fmt::format("{} printed no answer", program),
                   "run it by hand with a prompt on its standard input"};
    }
    return std::nullopt;
  }

  const CommandOptions options_;
};

}  // namespace

Result<std::unique_ptr<Provider>> CommandProvider(CommandOptions options) {
  if (options.argv.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "the model command has no program",
                "write command:PROGRAM ARGS");
  }
  TRY_ASSIGN(options.argv[0], FindProgram(options.argv[0]));
  return std::unique_ptr<Provider>(new Command(std::move(options)));
}

}  // namespace cupel::llm
