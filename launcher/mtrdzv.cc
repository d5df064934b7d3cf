#include "launcher/service_program.h"

int main(int argc, char** argv) { return mtrun::launcher::RunServiceProgram(argc, argv); }
