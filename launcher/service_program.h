// mtrdzv: the rendezvous service as a separate program, and status queries to a running one. mtrun is also
// that program if it is called by that name, so that a wheel needs only one executable.
#pragma once

namespace mtrun::launcher {

inline constexpr char kServiceProgram[] = "mtrdzv";

/// main() of that program; returns its exit status. Call before the first thread: it blocks stop signals.
int RunServiceProgram(int argc, char** argv);

}  // namespace mtrun::launcher
