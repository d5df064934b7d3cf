#include "tests/trainers/support/trainer_program.h"

#include <zlib.h>

#include <cstdlib>

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "datasets/packed/packed.h"
#include "tests/support/port.h"

namespace mtrun::trainers::testing {
namespace {

using support::ReadText;

std::vector<nlohmann::json> Lines(const std::string& run_folder) {
  std::vector<nlohmann::json> lines;
  for (const absl::string_view line :
       absl::StrSplit(ReadText(run_folder + "/metrics.jsonl"), '\n', absl::SkipEmpty())) {
    lines.push_back(nlohmann::json::parse(std::string(line)));
  }
  return lines;
}

/// Returns the bytes after the header of an IDX file, or "" if it cannot be read.
std::string IdxBytes(const std::string& name, size_t header, size_t bytes) {
  const std::string path = "/usr/share/datasets/fashion-mnist/" + name;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return "";
  std::string text(header + bytes, '\0');
  const int got = gzread(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return got == static_cast<int>(text.size()) ? text.substr(header) : "";
}

struct Fashion {
  std::string images, labels;
};
Fashion ReadFashion(const std::string& split, int64_t count) {
  return {IdxBytes(split + "-images-idx3-ubyte.gz", 16, static_cast<size_t>(count) * 28 * 28),
          IdxBytes(split + "-labels-idx1-ubyte.gz", 8, static_cast<size_t>(count))};
}

}  // namespace

support::Overlay NoLauncher() {
  return {{"RANK", std::nullopt},
          {"WORLD_SIZE", std::nullopt},
          {"MTRUN_SOCKET", std::nullopt},
          {"OMP_NUM_THREADS", "1"}};
}

std::vector<StepLine> Steps(const std::string& run_folder) {
  std::vector<StepLine> steps;
  for (const auto& json : Lines(run_folder)) {
    if (!json.contains("step")) continue;
    EXPECT_EQ(json["step"], steps.size());
    steps.push_back({json["loss"], json["samples"]});
  }
  return steps;
}

std::vector<nlohmann::json> Evaluations(const std::string& run_folder) {
  std::vector<nlohmann::json> evaluations;
  for (const auto& json : Lines(run_folder)) {
    if (json.contains("eval")) evaluations.push_back(json);
  }
  return evaluations;
}

nlohmann::json Report(const std::string& run_folder) {
  return nlohmann::json::parse(ReadText(run_folder + "/report.json"));
}

std::unique_ptr<support::Program> Start(const std::string& program, Args args,
                                        const support::Overlay& overlay) {
  args.insert(args.begin(), support::BinaryFolder() + "/" + program);
  return std::make_unique<support::Program>(args, overlay);
}

std::vector<std::unique_ptr<support::Program>> StartWorld(const std::string& program, int world,
                                                          const Args& args, const support::Overlay& more) {
  const int port = support::FreePort();
  std::vector<std::unique_ptr<support::Program>> workers;
  for (int rank = 0; rank < world; ++rank) {
    support::Overlay overlay = NoLauncher();
    for (const auto& item : more) overlay[item.first] = item.second;
    overlay["RANK"] = absl::StrCat(rank);
    overlay["WORLD_SIZE"] = absl::StrCat(world);
    overlay["MASTER_ADDR"] = "127.0.0.1";
    overlay["MASTER_PORT"] = absl::StrCat(port);
    workers.push_back(Start(program, args, overlay));
  }
  return workers;
}

std::string Run(const std::string& program, int world, const Args& args, support::Seconds patience) {
  if (world == 1) {
    const auto alone = Start(program, args);
    EXPECT_EQ(alone->Wait(patience), 0) << alone->Text();
    return alone->Text();
  }
  const auto workers = StartWorld(program, world, args);
  for (const auto& worker : workers)
    EXPECT_EQ(worker->Wait(patience), 0) << "world " << world << "\n" << worker->Text();
  return workers[0]->Text();
}

std::string FashionSet(const std::string& folder, int64_t train, int64_t test) {
  const Fashion first = ReadFashion("train", train), second = ReadFashion("t10k", test);
  if (first.images.empty() || first.labels.empty() || second.images.empty() || second.labels.empty())
    return "";
  return WritePackedImages(
      folder, "fashion", {.height = 28, .width = 28, .classes = 10, .train = train, .test = test},
      [&](int64_t i) { return static_cast<int64_t>(i < train ? first.labels[i] : second.labels[i - train]); },
      [&](int64_t i, int64_t, int y, int x, int) {
        const std::string& images = i < train ? first.images : second.images;
        return static_cast<uint8_t>(images[((i < train ? i : i - train) * 28 + y) * 28 + x]);
      });
}

std::string CifarSet(const std::string& folder) {
  const char* source = std::getenv("MT_SOURCE_DIR");
  const std::string archive =
      absl::StrCat(source == nullptr ? "." : source, "/tests/testdata/cifar10/cifar10-2500.tar.xz");
  const std::string path = absl::StrCat(folder, "/cifar10");
  const auto import = Start("mtdata", {"import", archive, path});
  EXPECT_EQ(import->Wait(), 0) << import->Text();
  return path;
}

std::string CifarPart(const std::string& cifar, const std::string& folder, int64_t train) {
  const auto from = datasets::PackedSplit::Open(cifar, "train"),
             test = datasets::PackedSplit::Open(cifar, "test");
  EXPECT_TRUE(from.ok() && test.ok()) << from.status() << test.status();
  const int64_t classes = 10, each = train / classes, there = from->size() / classes;
  // Classes one after the other, as in the whole set.
  const auto source = [&](int64_t i) { return i / each * there + i % each; };
  return WritePackedImages(
      folder, absl::StrCat("cifar10-", train),
      {.height = 32, .width = 32, .classes = 10, .train = train, .test = test->size()},
      [&](int64_t i) { return i < train ? from->label(source(i)) : test->label(i - train); },
      [&](int64_t i, int64_t, int y, int x, int channel) {
        const auto image = i < train ? from->image(source(i)) : test->image(i - train);
        return image[(y * 32 + x) * 3 + channel];
      });
}

}  // namespace mtrun::trainers::testing
