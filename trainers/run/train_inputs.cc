#include "trainers/run/train_inputs.h"

#include <utility>

#include "trainers/run/room_wait.h"

namespace mtrun::trainers {

RunFiles::Options FilesOptions(const TrainInputs& in, const Membership& membership,
                               std::function<std::string(int64_t step)> sample_ids,
                               std::function<void()> still_here) {
  const datasets::BatchPlan& plan = in.options.plan;
  return {.path = in.options.model_folder,
          .settings = in.settings,
          .ledger = {.run = 0,
                     .seed = in.options.seed,
                     .size = in.train.size(),
                     .global_batch = plan.global_batch,
                     .micro_batch = plan.micro_batch,
                     .shuffle = in.options.shuffle,
                     .data = in.train.digest()},
          .keep_last = in.options.keep_checkpoints,
          .grace = in.grace,
          .remember = membership.elastic(),
          .sample_ids = std::move(sample_ids),
          .await_room =
              RoomWait([&membership] { return membership.generation_is_over() || membership.wants_drain(); },
                       std::move(still_here))};
}

}  // namespace mtrun::trainers
