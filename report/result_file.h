// A run's result in the form of the programs that the trainers took over from. Pure functions.
#pragma once

#include <string>

#include "report/run_record.h"

namespace mtrun::report {

/// `{batch}_{epochs}_{nodes}_{gpus}.txt`: "64_10_2_1.txt", images a worker computes at once, epochs, nodes
/// and workers on each.
std::string ResultFileName(const Result& result);
/// Loss every 512 steps, each epoch's accuracies, figures of classes, best accuracy, time, confusion matrix.
std::string ResultFileText(const RunRecord& run, const Result& result);

}  // namespace mtrun::report
