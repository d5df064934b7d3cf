#include "trainers/step/step_sums.h"

#include <cstring>
#include <type_traits>

#include "base/status_macros.h"

namespace mtrun::trainers {

static_assert(std::is_trivially_copyable_v<StepSums> && sizeof(StepSums) == 14 * 8, "no padding travels");

StepTimes& StepTimes::operator+=(const StepTimes& other) {
  compute += other.compute;
  wait += other.wait;
  data += other.data;
  return *this;
}

StepSums& StepSums::operator+=(const StepSums& other) {
  loss += other.loss;
  correct += other.correct;
  leaving += other.leaving;
  regrouping += other.regrouping;
  overflowed += other.overflowed;
  gathered += other.gathered;
  return *this;
}

std::string Encode(const StepSums& record) {
  std::string bytes(sizeof(record), '\0');
  std::memcpy(bytes.data(), &record, sizeof(record));
  return bytes;
}

StepSums DecodeStepSums(std::string_view bytes) {
  StepSums record;
  MT_CHECK(bytes.size() == sizeof(record)) << "a step's record of " << bytes.size() << " bytes";
  std::memcpy(&record, bytes.data(), sizeof(record));
  return record;
}

StepSums SumOf(const std::vector<std::string>& encoded) {
  StepSums sum;
  for (const std::string& bytes : encoded) sum += DecodeStepSums(bytes);
  return sum;
}

std::vector<StepTimes> LastTimes(const std::vector<std::string>& encoded) {
  std::vector<StepTimes> times;
  times.reserve(encoded.size());
  for (const std::string& bytes : encoded) times.push_back(DecodeStepSums(bytes).last);
  return times;
}

}  // namespace mtrun::trainers
