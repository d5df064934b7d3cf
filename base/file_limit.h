// How many files a process may have open. Each worker and each agent costs mtrun some, and the usual limit of
// 1024 ends long before memory does; but a program that uses select() breaks beyond it.
#pragma once

#include <sys/resource.h>

#include <cstddef>

namespace mtrun {

/// To what the system allows this process. Call before the first thread.
void RaiseFileLimit();
/// What this process began with: programs that it starts get that back.
const rlimit& InheritedFileLimit();
/// Room for so many open files, as far as the limit goes. A process with threads whose table of them has to
/// grow (from 64 open files to 256 to 512) waits for all processors, milliseconds each time (expand_fdtable
/// in Linux's fs/file.c). Call before the first thread.
void MakeRoomForFiles(size_t count);
/// How many it may have open now.
size_t FileLimit();

}  // namespace mtrun
