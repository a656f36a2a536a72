// An oracle for workers without PyTorch: it requests cases from the coordinator. The answers are
// hashes; files that the node does not have yet are fetched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "oracle/oracle.h"
#include "serve/store.h"
#include "serve/wire_end.h"

namespace cupel::serve {

class RemoteOracle final : public oracle::Oracle {
 public:
  /// `wire` is borrowed.
  RemoteOracle(WireEnd& wire, CaseStore store) : wire_(wire), store_(std::move(store)) {}

  /// Sets the ticket of the item that later requests are for.
  void Serve(int64_t ticket) { ticket_ = ticket; }

  using Oracle::Open;
  using Oracle::OpenSeeds;
  Result<std::unique_ptr<Stream>> Open(const task::Task& task, task::Direction direction,
                                       const task::Setting& setting, int count,
                                       std::optional<uint64_t> seed, bool fresh,
                                       oracle::Distribution distribution) override;
  Result<std::unique_ptr<Stream>> OpenSeeds(const task::Task& task, task::Direction direction,
                                            const task::Setting& setting,
                                            const std::vector<uint64_t>& seeds,
                                            oracle::Distribution distribution) override;
  const std::vector<std::string>& warnings() const override { return warnings_; }

 private:
  class Answers;
  OpenCases Question(task::Direction direction, const task::Setting& setting,
                     oracle::Distribution distribution);
  Result<std::unique_ptr<Stream>> Begin(const task::Task& task, OpenCases question);
  Result<CaseAnswer> Next(int64_t stream);
  Result<os::MappedFile> FileOf(const CaseAnswer& answer);

  WireEnd& wire_;
  CaseStore store_;
  int64_t ticket_ = 0, last_stream_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace cupel::serve
