// A system without free threads.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace mtrun::support {

/// Prevents this process from starting threads during its lifetime, as at a limit of processes: each stack
/// would exceed the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 50);
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace mtrun::support
