#include "tests/trainers/support/questions.h"

#include <set>
#include <string>

#include "absl/strings/match.h"

namespace mtrun::trainers::testing {
namespace {

thread_local int64_t asked_so_far = 0;
thread_local int within = 0;  // nesting of kernels whose CPU implementation alone queries values

/// Returns whether `operation` reads a tensor's value, or has a result whose size only the device knows.
bool Asks(const std::string& operation) {
  static const std::set<std::string> all = {
      "aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero",
      "aten::masked_select",       "aten::equal",      "aten::_unique2"};
  return all.count(operation) != 0;
}

/// The CPU's fused optimizers read the learning rate, which a device's optimizers get as a tensor.
struct Within : at::ObserverContext {
  Within() { ++within; }
  ~Within() override { --within; }
};

std::unique_ptr<at::ObserverContext> Begin(const at::RecordFunction& function) {
  const std::string name = function.name();
  if (within == 0 && Asks(name)) ++asked_so_far;
  return absl::StartsWith(name, "aten::_fused_") ? std::make_unique<Within>() : nullptr;
}

/// The context is destroyed with the call.
void End(const at::RecordFunction&, at::ObserverContext*) {}

}  // namespace

Questions::Questions() : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(Begin, End))) {
  asked_so_far = 0;
}
Questions::~Questions() { at::removeCallback(handle_); }
int64_t Questions::asked() const { return asked_so_far; }

}  // namespace mtrun::trainers::testing
