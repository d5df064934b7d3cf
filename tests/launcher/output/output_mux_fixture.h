// Workers and consoles for tests of OutputMux.
#pragma once

#include <fcntl.h>

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "launcher/output/output_mux.h"
#include "tests/launcher/output/pipe.h"
#include "tests/support/program.h"

namespace mtrun::launcher {

/// The worker's ends of its two streams.
struct FakeWorker {
  UniqueFd out, err;
};

class OutputMuxTest : public testing::Test {
 protected:
  FakeWorker AddWorker(OutputMux& mux, int local_rank, OutputPlan plan = {},
                       const std::function<void(WorkerStreams&)>& change = {}) {
    Pipe out, err;
    WorkerStreams streams;
    streams.local_rank = local_rank;
    streams.prefix = absl::StrCat("[w", local_rank, "]:");
    streams.out = std::move(out.read);
    streams.err = std::move(err.read);
    streams.plan = plan;
    streams.files.out = folder_.File(absl::StrCat("out", local_rank));
    streams.files.err = folder_.File(absl::StrCat("err", local_rank));
    if (change) change(streams);
    EXPECT_TRUE(mux.Add(std::move(streams)).ok());
    return {std::move(out.write), std::move(err.write)};
  }

  const support::TemporaryFolder folder_;
  // Files serve as consoles, so their content can be read later.
  const std::string console_out_ = folder_.File("console_out"), console_err_ = folder_.File("console_err");
  const UniqueFd out_{open(console_out_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
  const UniqueFd err_{open(console_err_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)};
};

}  // namespace mtrun::launcher
