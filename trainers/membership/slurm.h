// Workers that Slurm's srun started: its variables as those of a launcher. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "base/worker_env.h"

namespace mtrun::trainers {

/// The first host of a Slurm list: "node[07-09,12],login" -> "node07". "" for an empty list.
std::string FirstHost(std::string_view node_list);

/// Within a step of several tasks (SLURM_STEP_ID, SLURM_STEP_NUM_TASKS, SLURM_PROCID) that no launcher
/// started otherwise: adds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_WORLD_SIZE, and where they
/// are missing MASTER_ADDR (the first host of SLURM_STEP_NODELIST) and MASTER_PORT (a function of
/// SLURM_JOB_ID and the step). Else changes nothing.
void AddSlurm(EnvironmentMap& environment);

}  // namespace mtrun::trainers
