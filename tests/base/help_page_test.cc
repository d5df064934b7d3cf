#include "base/help_page.h"

#include <gtest/gtest.h>

namespace mtrun {
namespace {

TEST(HelpPage, ShowsPurposeSynopsisExamplesNotesAndFlagsInThisOrder) {
  const HelpPage page = {.purpose = "Counts sheep.",
                         .usage = {"count [flags] SHEEP", "count --version"},
                         .examples = {{"a hundred", "count 100"}, {"none", "count 0"}},
                         .notes = "Sheep are white.\n"};
  EXPECT_EQ(HelpText(page, "\nFlags:\n"),
            "Counts sheep.\n"
            "\n"
            "usage: count [flags] SHEEP\n"
            "       count --version\n"
            "\n"
            "examples:\n"
            "  # a hundred\n"
            "  count 100\n"
            "  # none\n"
            "  count 0\n"
            "\n"
            "Sheep are white.\n"
            "\n"
            "Flags:\n");
}

}  // namespace
}  // namespace mtrun
