// The training programs by name. Each is described in its own file.
#include "trainers/program/trainers.h"
#include "trainers/trainer_list.h"

namespace mtrun {

#define MT_DECLARE(name, describe) trainers::Program describe();
MT_TRAINERS(MT_DECLARE)
#undef MT_DECLARE

namespace {

#define MT_ROW(name, describe) {name, describe},
constexpr trainers::Trainer kTrainers[] = {MT_TRAINERS(MT_ROW)};
#undef MT_ROW

}  // namespace
}  // namespace mtrun

int main(int argc, char** argv) { return mtrun::trainers::RunTrainer(argc, argv, mtrun::kTrainers); }
