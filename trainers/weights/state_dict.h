// Finds the state dict in the pickle of torch.save and places its tensors in the file. Independent of
// LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainers/weights/pickle.h"
#include "trainers/weights/stored_tensor.h"

namespace mtrun::trainers {

/// A storage that a pickle refers to.
struct Storage {
  std::string key = {};
  std::optional<datasets::DType> type =
      {};               // nullopt: the tensors say it, or weights cannot have it (complex numbers)
  int64_t element = 1;  // bytes of one element
  int64_t numel = 0;
};

/// Reads the name of a storage: ("storage", type, key, location, numel) and, in old files, None.
absl::StatusOr<Storage> ReadStorage(const PickleValue& persistent);
/// Returns the storage of a type by its global ("torch.FloatStorage"), without key and numel.
absl::StatusOr<Storage> StorageOfType(const std::string& global);
/// Returns whether a persistent value names a class or an object instead of a storage.
bool NamesObject(const PickleValue& persistent);

/// Source of what a pickle's persistent values name. Each format has one.
class PersistentSource {
 public:
  virtual ~PersistentSource() = default;
  /// Returns a storage's bytes.
  virtual absl::StatusOr<absl::string_view> Bytes(const Storage& storage) const = 0;
  /// Returns the tensor of that name, in a format that names tensors.
  virtual absl::StatusOr<StoredTensor> Tensor(const PickleValue& name) const;
};

/// Returns whether a state dict's entry is a module's own (_extra_state), of any type, and not a weight.
bool IsExtraState(const std::string& name);

/// Returns the tensors of the state dict in `root`, in its order: of the first of its entries state_dict,
/// model_state_dict, model, net that is one, or of `root`. Entries that are plain data are left out.
/// `file_size` limits their bytes. kDataLoss: broken; kPermissionDenied: a tensor needs code;
/// kInvalidArgument: no state dict, or tensors of a kind that weights do not use. Errors name the tensor.
absl::StatusOr<std::vector<StoredTensor>> ReadStateDict(const PickleValue& root,
                                                        const PersistentSource& source, uint64_t file_size);

}  // namespace mtrun::trainers
