// Translates the variables of Slurm's srun into a launcher's. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/worker_env.h"

namespace mtrun::trainers {

/// Returns the first host of a Slurm list: "node[07-09,12],login" -> "node07"; "" if the list is empty.
std::string FirstHost(std::string_view node_list);

/// Changes the environment only if this is a step of several tasks (SLURM_STEP_ID, SLURM_STEP_NUM_TASKS,
/// SLURM_PROCID) that no other launcher started. Adds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and
/// GROUP_WORLD_SIZE. If they are missing, adds MASTER_ADDR (the first host of SLURM_STEP_NODELIST) and
/// MASTER_PORT (a function of SLURM_JOB_ID and the step).
void AddSlurm(EnvironmentMap& environment);

}  // namespace mtrun::trainers
