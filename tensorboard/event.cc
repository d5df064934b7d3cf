#include "tensorboard/event.h"

#include "tensorboard/wire.h"

namespace mtrun::tensorboard {
namespace {

using wire::AppendBytes;
using wire::AppendDouble;
using wire::AppendFloat;
using wire::AppendInt;

// Field numbers: event.proto, summary.proto, tensor.proto, tensor_shape.proto and types.proto of TensorBoard.
namespace event {
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr int kStatus = 1;
constexpr int64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr int kValue = 1;
}
namespace value {
constexpr int kTag = 1, kSimpleValue = 2, kImage = 4, kTensor = 8, kMetadata = 9;
}
namespace image {
constexpr int kHeight = 1, kWidth = 2, kColorspace = 3, kEncoded = 4;
constexpr int64_t kRgb = 3;
}  // namespace image
namespace metadata {
constexpr int kPluginData = 1;
constexpr int kPluginName = 1;  // within kPluginData
}  // namespace metadata
namespace tensor {
constexpr int kDtype = 1, kShape = 2, kStringValue = 8;
constexpr int kDimension = 2;  // within the shape
constexpr int kSize = 1;       // within the dimension
constexpr int64_t kString = 7;
}  // namespace tensor

std::string Value(std::string_view tag, int field, std::string_view message) {
  std::string out;
  AppendBytes(out, value::kTag, tag);
  AppendBytes(out, field, message);
  return out;
}

std::string SummaryOf(std::string_view only_value) {
  std::string out;
  AppendBytes(out, summary::kValue, only_value);
  return out;
}

struct Encoder {
  std::string& out;

  void operator()(const FileVersion&) const { AppendBytes(out, event::kFileVersion, "brain.Event:2"); }

  void operator()(const Start&) const {
    std::string log;
    AppendInt(log, session_log::kStatus, session_log::kStart);
    AppendBytes(out, event::kSessionLog, log);
  }

  void operator()(const std::vector<Scalar>& scalars) const {
    std::string all, one;
    for (const Scalar& scalar : scalars) {
      one.clear();
      AppendBytes(one, value::kTag, scalar.tag);
      AppendFloat(one, value::kSimpleValue, static_cast<float>(scalar.value));
      AppendBytes(all, summary::kValue, one);
    }
    AppendBytes(out, event::kSummary, all);
  }

  void operator()(const Picture& picture) const {
    std::string message;
    AppendInt(message, image::kHeight, picture.height);
    AppendInt(message, image::kWidth, picture.width);
    AppendInt(message, image::kColorspace, image::kRgb);
    AppendBytes(message, image::kEncoded, picture.png);
    AppendBytes(out, event::kSummary, SummaryOf(Value(picture.tag, value::kImage, message)));
  }

  /// Encodes a string tensor of shape [1], which the text plugin shows.
  void operator()(const Text& text) const {
    std::string dimension, shape, message, plugin, about;
    AppendInt(dimension, tensor::kSize, 1);
    AppendBytes(shape, tensor::kDimension, dimension);
    AppendInt(message, tensor::kDtype, tensor::kString);
    AppendBytes(message, tensor::kShape, shape);
    AppendBytes(message, tensor::kStringValue, text.text);
    AppendBytes(plugin, metadata::kPluginName, "text");
    AppendBytes(about, metadata::kPluginData, plugin);
    std::string one = Value(text.tag, value::kTensor, message);
    AppendBytes(one, value::kMetadata, about);
    AppendBytes(out, event::kSummary, SummaryOf(one));
  }
};

}  // namespace

std::string EncodeEvent(double wall_time, int64_t step, const Content& content) {
  std::string out;
  AppendDouble(out, event::kWallTime, wall_time);
  if (step != 0) AppendInt(out, event::kStep, step);
  std::visit(Encoder{out}, content);
  return out;
}

}  // namespace mtrun::tensorboard
