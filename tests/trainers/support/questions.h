// What would wait for a device, counted on a processor: operations whose result the host asks for.
#pragma once

#include <cstdint>
#include <memory>

#include <ATen/record_function.h>

namespace mtrun::trainers::testing {

/// Of this thread, and of autograd's work for it, while it lives.
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
