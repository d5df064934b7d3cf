// Counts, on a CPU, the operations that would wait for a device because the host needs their result.
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/record_function.h>

namespace mtrun::trainers::testing {

/// Counts for this thread and for autograd's work on its behalf, during its lifetime.
class Questions {
 public:
  Questions();
  ~Questions();
  Questions(const Questions&) = delete;
  int64_t asked() const;

 private:
  at::CallbackHandle handle_;
};

}  // namespace mtrun::trainers::testing
