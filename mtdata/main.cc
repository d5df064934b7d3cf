// mtdata: makes, inspects, serves and fetches packed data sets.
#include "base/file_limit.h"
#include "base/log.h"
#include "base/thread_limit.h"
#include "mtdata/commands.h"

int main(int argc, char** argv) {
  mtrun::ExplainLackOfThreads("mtdata");
  mtrun::SurviveSizeLimit();
  mtrun::log::SetUp("mtdata", mtrun::log::Level::kInfo);
  return mtrun::datasets::RunCommand({argv + 1, argv + argc});
}
