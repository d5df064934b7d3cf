// mtrdzv: the rendezvous service as a program of its own, and a look into a running one. mtrun is that
// program, too, when it is called by that name: a wheel holds what both need once.
#pragma once

namespace mtrun::launcher {

inline constexpr char kServiceProgram[] = "mtrdzv";

/// main() of that program: its exit status. Before any thread: it blocks the signals that end it.
int RunServiceProgram(int argc, char** argv);

}  // namespace mtrun::launcher
