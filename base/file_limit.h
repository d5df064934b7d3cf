// Limits on the files of this process. Each worker and each agent costs mtrun some descriptors, so the usual
// limit of 1024 open files is exhausted long before memory. Programs that use select() break above it.
#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace mtrun {

/// Raises the limit to the maximum that the system allows; beyond it, if this process has the right to do so,
/// to `wanted`. Call before the first thread starts.
void RaiseFileLimit(size_t wanted = 0);
/// Returns the limit that this process started with; child programs get it back.
const rlimit& InheritedFileLimit();
/// Grows the kernel's table for `count` open files, up to the limit. If the table has to grow later (at 64,
/// 256, 512 files ...) in a process with threads, the kernel waits for all processors, milliseconds each time
/// (expand_fdtable in Linux's fs/file.c). Call before the first thread starts.
void MakeRoomForFiles(size_t count);
/// Returns the current limit.
size_t FileLimit();

/// Makes writes beyond the size limit of files (ulimit -f) fail with EFBIG instead of ending the process by
/// SIGXFSZ. Inherited by programs that this process executes.
void SurviveSizeLimit();
/// Returns the limit on the size of a file, in bytes; RLIM_INFINITY if there is none.
size_t SizeLimit();
/// Returns the status for EFBIG: kResourceExhausted, as for a full disk. `text` says what failed.
absl::Status AtSizeLimit(const std::string& text);
/// Returns whether a write failed because of the size limit, which other files do not share.
bool IsAtSizeLimit(const absl::Status& status);

}  // namespace mtrun
