#include "trainers/optim/optimizer.h"

#include "base/status_macros.h"

namespace mtrun::trainers {

#define MT_DECLARE(kind, name, make)                                         \
  std::unique_ptr<Optimizer> make(const OptimizerOptions& options,           \
                                  const std::vector<at::Tensor>& parameters, \
                                  std::vector<std::string> names);
MT_OPTIMIZERS(MT_DECLARE)
#undef MT_DECLARE

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerOptions& options,
                                         const std::vector<at::Tensor>& parameters,
                                         std::vector<std::string> names) {
  MT_CHECK(names.empty() || names.size() == parameters.size());
  using Kind = OptimizerOptions::Kind;
  switch (options.kind) {
#define MT_MAKE(kind, name, make) \
  case Kind::kind:                \
    return make(options, parameters, std::move(names));
    MT_OPTIMIZERS(MT_MAKE)
#undef MT_MAKE
  }
  MT_CHECK(false) << "optimizer " << static_cast<int>(options.kind);
  return nullptr;
}

}  // namespace mtrun::trainers
