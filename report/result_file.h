// A run's result in the file format of the programs that the trainers replaced. Pure functions.
#pragma once

#include <string>

#include "report/run_record.h"

namespace mtrun::report {

/// Returns `{batch}_{epochs}_{nodes}_{gpus}.txt`, such as "64_10_2_1.txt": micro-batch of a worker, epochs,
/// nodes, workers per node.
std::string ResultFileName(const Result& result);
/// Returns loss every 512 steps, accuracies per epoch, class metrics, best accuracy, time, confusion matrix.
std::string ResultFileText(const RunRecord& run, const Result& result);

}  // namespace mtrun::report
