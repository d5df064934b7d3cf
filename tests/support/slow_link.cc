// slow_link ADDRESS PORT TARGET: a FaultyLink without faults, on a machine of a test's network.
#include <unistd.h>

#include <cstdlib>

#include "tests/support/faulty_link.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const mtrun::support::FaultyLink link(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
  while (true) pause();
}
