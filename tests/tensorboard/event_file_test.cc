#include "tensorboard/event_file.h"

#include <unistd.h>

#include <filesystem>

#include "gtest/gtest.h"
#include "tests/support/program.h"
#include "tests/tensorboard/read_events.h"

namespace mtrun::tensorboard {
namespace {

using Points = std::vector<std::pair<int64_t, double>>;

void Write(const std::string& folder, int64_t from, int64_t to, double value) {
  auto file = EventFile::Create(folder, from);
  ASSERT_TRUE(file.ok()) << file.status();
  for (int64_t step = from; step < to; ++step) file->Add(1, step, std::vector<Scalar>{{"loss", value}});
  ASSERT_TRUE(file->Flush().ok());
}

TEST(EventFile, StartsWithItsVersionAndStart) {
  const support::TemporaryFolder folder;
  Write(folder.File("tb"), 0, 2, 0.5);
  const auto files = ReadEventFolder(folder.File("tb"));
  ASSERT_EQ(files.size(), 1u);
  ASSERT_EQ(files[0].events.size(), 4u);
  EXPECT_EQ(files[0].events[0].file_version, "brain.Event:2");
  EXPECT_TRUE(files[0].events[1].start);
}

TEST(EventFile, ResumedRunIsOneCurve) {
  const support::TemporaryFolder folder;
  const std::string tb = folder.File("tb");
  Write(tb, 0, 5, 1);
  Write(tb, 3, 6, 2);  // steps 3 and 4 are rewound
  Write(tb, 6, 7, 3);  // nothing is rewound
  EXPECT_EQ(CurveOf(ReadEventFolder(tb), "loss"),
            (Points{{0, 1}, {1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 2}, {6, 3}}));
}

TEST(EventFile, ContinuesAfterADamagedTail) {
  const support::TemporaryFolder folder;
  const std::string tb = folder.File("tb");
  Write(tb, 0, 5, 1);
  for (const auto& entry : std::filesystem::directory_iterator(tb))
    std::filesystem::resize_file(entry.path(), entry.file_size() - 3);  // in the middle of step 4
  Write(tb, 4, 6, 2);
  const auto files = ReadEventFolder(tb);
  EXPECT_EQ(files[0].end, "cut");
  EXPECT_EQ(CurveOf(files, "loss"), (Points{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 2}, {5, 2}}));
}

TEST(EventFile, NamesSortInFileOrderWhateverTheClock) {
  EXPECT_EQ(NextFileName(1764000000, "node1", 7, {"metrics.jsonl"}),
            "events.out.tfevents.1764000000.node1.7");
  EXPECT_EQ(NextFileName(1764000000, "a", 7, {"events.out.tfevents.1764000100.z.9", "events.out.tfevents.x"}),
            "events.out.tfevents.1764000101.a.7");
  EXPECT_EQ(NextFileName(5, "a", 7, {}), "events.out.tfevents.0000000005.a.7");
}

TEST(EventFile, UncreatableFolderIsAnError) {
  const support::TemporaryFolder folder;
  support::WriteText(folder.File("tb"), "a file");
  const auto file = EventFile::Create(folder.File("tb"), 0);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(std::string(file.status().message()).find("tb"), std::string::npos) << file.status();
}

}  // namespace
}  // namespace mtrun::tensorboard
