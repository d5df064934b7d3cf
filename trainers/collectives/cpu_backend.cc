#include "trainers/collectives/cpu_backend.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "absl/status/status.h"
#include "base/clock.h"
#include "trainers/collectives/flight_record.h"

namespace mtrun::collectives {
namespace {

using c10::ivalue::Future;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

std::exception_ptr AsException(const absl::Status& status) {
  return std::make_exception_ptr(c10::DistBackendError({__func__, __FILE__, __LINE__}, Text(status)));
}

const char* NameOf(c10d::OpType type) {
  switch (type) {
    case c10d::OpType::ALLREDUCE:
    case c10d::OpType::ALLREDUCE_COALESCED:
      return "all-reduce";
    case c10d::OpType::BROADCAST:
      return "broadcast";
    case c10d::OpType::BARRIER:
      return "barrier";
    default:
      return "all-gather";
  }
}

int64_t BytesOf(const std::vector<at::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
  return bytes;
}

/// The work of one c10d call: one or more operations, which end in order.
class CpuWork : public c10d::Work {
 public:
  CpuWork(int rank, c10d::OpType type, std::vector<at::Tensor> tensors)
      : c10d::Work(rank, type),
        tensors_(std::move(tensors)),
        number_(FlightRecord::OfProcess().Began(NameOf(type), BytesOf(tensors_), MonotonicNow())),
        future_(c10::make_intrusive<Future>(c10::ListType::ofTensors())) {}

  /// Returns the last operation's callback, which keeps the tensors alive even if no caller waits.
  Group::OnDone Finisher() const {
    return [tensors = tensors_, future = future_, number = number_](const absl::Status& status) {
      FlightRecord::OfProcess().Ended(number, status, MonotonicNow());
      if (status.ok()) {
        future->markCompleted(c10::IValue(tensors));
      } else {
        future->setError(AsException(status));
      }
    };
  }
  void Add(std::shared_ptr<collectives::Work> operation) { operations_.push_back(std::move(operation)); }

  bool wait(std::chrono::milliseconds) override {
    absl::Status first;
    for (const auto& operation : operations_) first.Update(operation->Wait());
    TORCH_CHECK_WITH(DistBackendError, first.ok(), Text(first));
    return true;
  }
  bool isCompleted() override { return operations_.back()->done(); }
  bool isSuccess() const override { return operations_.back()->done() && First().ok(); }
  std::exception_ptr exception() const override { return First().ok() ? nullptr : AsException(First()); }
  void synchronize() override {}
  std::vector<at::Tensor> result() override { return tensors_; }
  c10::intrusive_ptr<Future> getFuture() override { return future_; }

 private:
  absl::Status First() const {
    absl::Status first;
    for (const auto& operation : operations_) first.Update(operation->status());
    return first;
  }

  const std::vector<at::Tensor> tensors_;
  const uint64_t number_;  // its number in the flight record
  const c10::intrusive_ptr<Future> future_;
  std::vector<std::shared_ptr<collectives::Work>> operations_;
};

std::optional<DataType> TypeOf(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DataType::kFloat32;
    case at::kDouble:
      return DataType::kFloat64;
    case at::kLong:
      return DataType::kInt64;
    case at::kByte:
      return DataType::kUint8;
    case at::kBFloat16:
      return DataType::kBFloat16;
    default:
      return std::nullopt;
  }
}

void CheckTensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == at::kStrided,
              "the mtrun group takes dense CPU tensors, got ", tensor.toString());
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "the mtrun group takes tensors without gaps, got sizes ",
              tensor.sizes(), " strides ", tensor.strides());
}

const at::Tensor& Only(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK(tensors.size() == 1, "expected one tensor, got ", tensors.size());
  CheckTensor(tensors[0]);
  return tensors[0];
}

/// A tensor's elements for the group; bytes if the group cannot compute with its type.
struct Elements {
  size_t count;
  DataType dtype;
};
Elements ElementsOf(const at::Tensor& tensor) {
  if (const auto dtype = TypeOf(tensor)) return {static_cast<size_t>(tensor.numel()), *dtype};
  return {tensor.nbytes(), DataType::kUint8};
}

DataType Reducible(const at::Tensor& tensor) {
  const auto dtype = TypeOf(tensor);
  TORCH_CHECK(dtype.has_value(), "all-reduce supports float32, float64, bfloat16, int64 and uint8, got ",
              tensor.scalar_type());
  return *dtype;
}

Group::Start StartOf(bool async) { return async ? Group::Start::kNow : Group::Start::kOnWait; }

ReduceOp OpOf(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return ReduceOp::kSum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::kAverage;
    case c10d::ReduceOp::MAX:
      return ReduceOp::kMax;
    case c10d::ReduceOp::MIN:
      return ReduceOp::kMin;
    default:
      TORCH_CHECK(false, "all-reduce supports sum, average, max and min");
  }
}

}  // namespace

CpuBackend::CpuBackend(std::unique_ptr<Group> group)
    : c10d::Backend(group->rank(), group->size()), group_(std::move(group)) {}

CpuBackend::Works CpuBackend::allreduce(std::vector<at::Tensor>& tensors,
                                        const c10d::AllreduceOptions& options) {
  return Reduce(tensors, OpOf(options.reduceOp), StartOf(options.asyncOp));
}

CpuBackend::Works CpuBackend::AllReduceWithNotes(const at::Tensor& tensor, std::shared_ptr<Notes> notes) {
  return Reduce({tensor}, ReduceOp::kSum, Group::Start::kNow, std::move(notes));
}

CpuBackend::Works CpuBackend::SumPartials(const at::Tensor& partials, std::shared_ptr<const TreePlan> plan,
                                          std::shared_ptr<Notes> notes) {
  CheckTensor(partials);
  TORCH_CHECK(partials.dim() == 2 && partials.is_contiguous() &&
                  partials.size(0) >= std::max(1, plan->partials.at(static_cast<size_t>(rank_))),
              "expected the partial sums of ", plan->Describe(), ", got sizes ", partials.sizes());
  auto work = c10::make_intrusive<CpuWork>(rank_, c10d::OpType::ALLREDUCE, std::vector<at::Tensor>{partials});
  work->Add(group_->SumPartials(partials.data_ptr(), static_cast<size_t>(partials.size(1)),
                                Reducible(partials), std::move(plan), work->Finisher(), std::move(notes)));
  return work;
}

CpuBackend::Works CpuBackend::Reduce(const std::vector<at::Tensor>& tensors, ReduceOp op, Group::Start start,
                                     std::shared_ptr<Notes> notes) {
  const at::Tensor& tensor = Only(tensors);
  const DataType dtype = Reducible(tensor);
  auto work = c10::make_intrusive<CpuWork>(rank_, c10d::OpType::ALLREDUCE, tensors);
  work->Add(group_->AllReduce(tensor.data_ptr(), static_cast<size_t>(tensor.numel()), dtype, op,
                              work->Finisher(), start, std::move(notes)));
  return work;
}

CpuBackend::Works CpuBackend::allreduce_coalesced(std::vector<at::Tensor>& tensors,
                                                  const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK(!tensors.empty(), "expected at least one tensor");
  const ReduceOp op = OpOf(options.reduceOp);
  for (const at::Tensor& tensor : tensors) CheckTensor(tensor), Reducible(tensor);
  auto work = c10::make_intrusive<CpuWork>(rank_, c10d::OpType::ALLREDUCE_COALESCED, tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    work->Add(group_->AllReduce(
        tensors[i].data_ptr(), static_cast<size_t>(tensors[i].numel()), Reducible(tensors[i]), op,
        i + 1 == tensors.size() ? work->Finisher() : nullptr, StartOf(options.asyncOp)));
  }
  return work;
}

CpuBackend::Works CpuBackend::broadcast(std::vector<at::Tensor>& tensors,
                                        const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = Only(tensors);
  TORCH_CHECK(options.rootTensor == 0, "expected rootTensor 0, got ", options.rootTensor);
  const Elements elements = ElementsOf(tensor);
  auto work = c10::make_intrusive<CpuWork>(rank_, c10d::OpType::BROADCAST, tensors);
  work->Add(group_->Broadcast(tensor.data_ptr(), elements.count, elements.dtype,
                              static_cast<int>(options.rootRank), work->Finisher(),
                              StartOf(options.asyncOp)));
  return work;
}

CpuBackend::Works CpuBackend::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                        std::vector<at::Tensor>& inputs,
                                        const c10d::AllgatherOptions& options) {
  const at::Tensor& input = Only(inputs);
  TORCH_CHECK(outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_), "expected one list of ",
              size_, " output tensors");
  std::vector<void*> targets;
  std::vector<at::Tensor> held = outputs[0];
  for (const at::Tensor& output : held) {
    CheckTensor(output);
    TORCH_CHECK(output.numel() == input.numel() && output.scalar_type() == input.scalar_type() &&
                    output.strides() == input.strides(),
                "all-gather outputs must have the input's size, type and strides");
    targets.push_back(output.data_ptr());
  }
  const Elements elements = ElementsOf(input);
  held.push_back(input);  // kept alive with the outputs
  auto work = c10::make_intrusive<CpuWork>(rank_, c10d::OpType::ALLGATHER, std::move(held));
  work->Add(group_->AllGather(input.data_ptr(), std::move(targets), elements.count, elements.dtype,
                              work->Finisher(), StartOf(options.asyncOp)));
  return work;
}

CpuBackend::Works CpuBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::AllgatherOptions& options) {
  CheckTensor(input);
  TORCH_CHECK(output.is_contiguous() && input.is_contiguous() &&
                  output.scalar_type() == input.scalar_type() && output.numel() == input.numel() * size_,
              "expected contiguous tensors of one type, the output ", size_, " times as long as the input");
  CheckTensor(output);
  std::vector<void*> targets;
  for (int rank = 0; rank < size_; ++rank) {
    targets.push_back(static_cast<char*>(output.data_ptr()) + static_cast<size_t>(rank) * input.nbytes());
  }
  const Elements elements = ElementsOf(input);
  auto work = c10::make_intrusive<CpuWork>(rank_, c10d::OpType::_ALLGATHER_BASE,
                                           std::vector<at::Tensor>{output, input});
  work->Add(group_->AllGather(input.data_ptr(), std::move(targets), elements.count, elements.dtype,
                              work->Finisher(), StartOf(options.asyncOp)));
  return work;
}

CpuBackend::Works CpuBackend::barrier(const c10d::BarrierOptions& options) {
  auto work = c10::make_intrusive<CpuWork>(rank_, c10d::OpType::BARRIER, std::vector<at::Tensor>{});
  work->Add(group_->Barrier(work->Finisher(), StartOf(options.asyncOp)));
  return work;
}

void AddCpuBackend(c10d::ProcessGroup& group, std::unique_ptr<Group> core) {
  group.setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                   c10::make_intrusive<CpuBackend>(std::move(core)));
  group.setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
}

CpuBackend* CpuBackendOf(const c10d::ProcessGroup& group) {
  return dynamic_cast<CpuBackend*>(group.getDefaultBackend().get());
}

}  // namespace mtrun::collectives
