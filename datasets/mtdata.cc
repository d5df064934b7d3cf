// mtdata: makes and inspects packed data sets. Exit status: 0, 1 failure, 2 usage, 128+signal when stopped.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/settings.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "base/version.h"
#include "datasets/commands.h"
#include "datasets/contact_sheet.h"
#include "datasets/images/image.h"
#include "datasets/images/image_file.h"
#include "datasets/images/png.h"
#include "datasets/import.h"
#include "datasets/import_flags.h"
#include "datasets/importers.h"
#include "datasets/info.h"
#include "datasets/packed.h"
#include "datasets/progress.h"

namespace mtrun::datasets {
namespace {

constexpr char kHelp[] = R"(mtdata makes and inspects the packed data sets that the trainers read.

usage: mtdata import SOURCE DEST [flags]   make the data set DEST (a new folder) from SOURCE
       mtdata info PATH [--verify]         show what the data set PATH holds
       mtdata show PATH --png FILE [flags] draw images of the data set PATH as one picture
       mtdata verify PATH                  compare every byte with the checksums and decode every encoded image
       mtdata --version
)";
constexpr char kAboutSource[] = R"(
SOURCE is one of
)";
constexpr char kAboutDest[] =
    R"(Archives are .tar, .tar.gz, .tar.bz2, .tar.xz, .tar.zst or .zip. A .tar is read where it lies; what is compressed as
a whole is unpacked to a file without a name beside DEST.

DEST appears only when it is complete. The same source gives the same bytes on every machine, whatever --threads is;
the digest that `info` shows tells whether two nodes have the same data. docs/formats.md describes the files.
)";
constexpr char kExamples[] = R"(
examples:
  mtdata import /usr/share/datasets/fashion-mnist data/fashion-mnist
  mtdata import cifar-10-binary.tar.gz data/cifar10
  mtdata import photos/ data/photos --resize 64x64 --skip_bad
  mtdata import photos.zip data/photos --test_share 0.1
  mtdata import imagenet/ data/imagenet --short_side 256
  mtdata import 'wds/train-{000000..000146}.tar' data/wds --val_source 'wds/val-{000000..000006}.tar'
  mtdata info data/cifar10 --verify
  mtdata show data/cifar10 --png cifar10.png --split test

exit status: 0 done, 1 it failed (the reason is on standard error), 2 wrong usage, 128+N stopped by signal N
)";

std::atomic<bool> cancelled = false;
std::atomic<int> stop_signal = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

extern "C" void OnStopSignal(int number) {
  stop_signal = number;
  cancelled = true;
}

/// SIGINT and SIGTERM end an import in order, so that its temporary folder goes; a second one ends it at
/// once.
void CatchStopSignals() {
  struct sigaction action {};
  action.sa_handler = OnStopSignal;
  action.sa_flags = SA_RESTART | SA_RESETHAND;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

/// "  idx         the MNIST family: ...", in lines of 80 columns.
std::string FormatLines() {
  constexpr size_t kIndent = 13, kColumns = 80;
  std::string lines;
  for (const Importer& importer : Importers()) {
    std::string line = absl::StrFormat("  %-10s", importer.name);
    for (const absl::string_view word : absl::StrSplit(importer.help, ' ')) {
      if (line.size() + 1 + word.size() > kColumns) {
        absl::StrAppend(&lines, line, "\n");
        line = std::string(kIndent - 1, ' ');
      }
      absl::StrAppend(&line, " ", word);
    }
    absl::StrAppend(&lines, line, "\n");
  }
  return lines;
}

std::vector<SettingSpec> InfoSpecs() {
  return {{.name = "verify",
           .kind = SettingSpec::Kind::kBool,
           .default_text = "false",
           .help = "Read every byte and compare it with the checksums.",
           .group = "flags of info"}};
}

std::vector<SettingSpec> ShowSpecs() {
  const std::string group = "flags of show";
  SettingSpec count{.name = "count",
                    .kind = SettingSpec::Kind::kInt,
                    .default_text = "64",
                    .help = "How many images, evenly spread over the split.",
                    .group = group};
  count.min = 1;
  count.max = kMaxCells;
  return {{.name = "png", .help = "File to write the picture to.", .group = group},
          {.name = "split", .default_text = "train", .help = "Split whose images to draw.", .group = group},
          count};
}

int Fail(int code, const absl::Status& status) {
  Complain(code, status);
  if (code == kUsage) std::cerr << "mtdata --help tells how to use it\n";
  return code;
}

int Fail(int code, const std::string& text) { return Fail(code, absl::UnknownError(text)); }

absl::StatusOr<std::vector<std::string>> Positionals(Settings& settings, const std::vector<std::string>& args,
                                                     const std::vector<std::string>& names) {
  MT_ASSIGN_OR_RETURN(std::vector<std::string> positionals, WordsOf(settings, args));
  if (positionals.size() == names.size()) return positionals;
  const std::string expected = absl::StrJoin(names, " and ");
  if (positionals.size() < names.size()) return absl::InvalidArgumentError(absl::StrCat("give ", expected));
  return absl::InvalidArgumentError(
      absl::StrCat("\"", positionals[names.size()], "\" is one argument too many; give ", expected));
}

int RunImport(const std::vector<std::string>& args) {
  Settings settings("mtdata import", ImportSpecs());
  const auto positionals = Positionals(settings, args, {"SOURCE", "DEST"});
  if (!positionals.ok()) return Fail(kUsage, positionals.status());
  const auto options = ReadImportFlags(settings, (*positionals)[0], (*positionals)[1]);
  if (!options.ok()) return Fail(kUsage, options.status());

  CatchStopSignals();
  const auto report = Import(*options, cancelled);
  if (absl::IsCancelled(report.status()))
    return Fail(128 + stop_signal,
                "stopped; nothing was imported (finished shards of encoded images are kept for "
                "the same command)");
  if (!report.ok()) return Fail(kFailure, report.status());
  const auto bad_files = static_cast<int64_t>(report->left_out.size());
  for (const BadFile& bad : report->left_out)
    log::Warning("left out ", AsPlainText(bad.path), ": ", AsPlainText(bad.why));
  std::cout << InfoText(options->destination, report->index)
            << absl::StrFormat("\nimported %s images (%s) in %.1f s, %s left out\n",
                               WithCommas(report->index.images()), report->format, report->seconds,
                               WithCommas(bad_files + report->counts.files()))
            << LeftOutText(bad_files, report->counts);
  return 0;
}

int RunInfo(const std::vector<std::string>& args) {
  Settings settings("mtdata info", InfoSpecs());
  const auto positionals = Positionals(settings, args, {"PATH"});
  if (!positionals.ok()) return Fail(kUsage, positionals.status());
  const std::string path = positionals->front();
  const auto index = ReadIndex(path);
  if (!index.ok()) return Fail(kFailure, index.status());
  if (const int status = Answer(InfoText(path, *index)); status != 0) return status;
  for (const auto& [name, split] : index->splits) {
    const auto opened = PackedSplit::Open(path, name, settings.Bool("verify"));
    if (!opened.ok()) return Fail(kFailure, opened.status());
  }
  if (index->encoded) {
    const auto census = TakeCensus(path, *index);
    if (!census.ok()) return Fail(kFailure, census.status());
    if (const int status = Answer("\n" + CensusText(*census)); status != 0) return status;
  }
  return settings.Bool("verify") ? Answer("\nverified: every shard has its SHA-256\n") : 0;
}

int RunShow(const std::vector<std::string>& args) {
  Settings settings("mtdata show", ShowSpecs());
  const auto positionals = Positionals(settings, args, {"PATH"});
  if (!positionals.ok()) return Fail(kUsage, positionals.status());
  const std::string path = positionals->front(), png = settings.Text("png"), name = settings.Text("split");
  if (png.empty()) return Fail(kUsage, "give --png FILE, which the picture is written to");
  const auto split = PackedSplit::Open(path, name);
  if (!split.ok()) return Fail(kFailure, split.status());
  const auto sheet = MakeContactSheet(*split, settings.Int("count"));
  if (!sheet.ok()) return Fail(kFailure, Annotate(sheet.status(), absl::StrCat(path, ": split ", name)));
  const absl::Status written = WriteFileAtomically(png, EncodePng(sheet->picture));
  if (!written.ok()) return Fail(kFailure, Annotate(written, "--png"));
  return Answer(CellTable(*sheet, *split) + absl::StrFormat("\n%s: %d of the %s images of %s, %d in a row\n",
                                                            png, sheet->images.size(),
                                                            WithCommas(split->size()), name, sheet->columns));
}

/// Every byte against the checksums, and every encoded image decoded.
absl::Status VerifySplit(const std::string& path, const std::string& name) {
  MT_ASSIGN_OR_RETURN(const PackedSplit split, PackedSplit::Open(path, name, /*verify=*/true));
  for (int64_t i = 0; split.encoded() && i < split.size(); ++i) {
    const auto image = DecodeImage(split.record(i), split.decode_limits(i));
    const std::string noun = absl::StrCat(path, ": image ", i, " of ", name);
    if (!image.ok()) return Annotate(image.status(), noun);
    if (image->size != split.image_size(i))
      return absl::DataLossError(absl::StrCat(noun, " is ", SizeText(image->size), ", not ",
                                              SizeText(split.image_size(i)), " as its shard says"));
  }
  return absl::OkStatus();
}

int RunVerify(const std::vector<std::string>& args) {
  Settings settings("mtdata verify", {});
  const auto positionals = Positionals(settings, args, {"PATH"});
  if (!positionals.ok()) return Fail(kUsage, positionals.status());
  const std::string path = positionals->front();
  const auto index = ReadIndex(path);
  if (!index.ok()) return Fail(kFailure, index.status());
  for (const auto& [name, split] : index->splits) {
    if (const absl::Status status = VerifySplit(path, name); !status.ok()) return Fail(kFailure, status);
  }
  return Answer(absl::StrCat("verified: every shard has its SHA-256",
                             index->encoded ? ", every image decodes" : "", "\n"));
}

std::string HelpText(absl::Span<const Command> more) {
  std::string text = kHelp;
  for (const Command& command : more) text += command.usage;
  absl::StrAppend(&text, kAboutSource, FormatLines(), kAboutDest, Settings("mtdata", ImportSpecs()).Help());
  absl::StrAppend(&text, Settings("mtdata", InfoSpecs()).Help(), Settings("mtdata", ShowSpecs()).Help());
  for (const Command& command : more) text += command.flags();
  return text + kExamples;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> WordsOf(Settings& settings, std::vector<std::string> args) {
  std::vector<std::string> words;
  while (!args.empty()) {
    MT_ASSIGN_OR_RETURN(args, settings.ParseFlags(args, /*positionals_allowed=*/true));
    if (args.empty()) break;
    words.push_back(args.front());
    args.erase(args.begin());
  }
  return words;
}

int Complain(int code, const absl::Status& status) {
  std::cerr << "mtdata: " << status.message() << "\n";
  return code;
}

int Answer(std::string_view text) {
  const absl::Status told = PrintOut(text);
  return told.ok() ? 0 : Complain(kFailure, told);
}

int RunCommand(const std::vector<std::string>& args, absl::Span<const Command> more) {
  const auto asks_help = [](const std::string& arg) { return arg == "--help" || arg == "-h"; };
  if (args.empty() || args[0] == "help" || std::any_of(args.begin(), args.end(), asks_help)) {
    const int status = Answer(HelpText(more));
    return args.empty() ? kUsage : status;
  }
  if (args[0] == "--version") return Answer(VersionLine("mtdata") + "\n");
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (args[0] == "import") return RunImport(rest);
  if (args[0] == "info") return RunInfo(rest);
  if (args[0] == "show") return RunShow(rest);
  if (args[0] == "verify") return RunVerify(rest);
  std::vector<std::string> names = {"import", "info", "show", "verify"};
  for (const Command& command : more) {
    if (args[0] == command.name) return command.run(rest);
    names.push_back(command.name);
  }
  const std::string near = NearestName(args[0], names);
  return Fail(kUsage, absl::StrCat("unknown command \"", args[0], "\"",
                                   near.empty() ? "" : "; did you mean " + near + "?"));
}

}  // namespace mtrun::datasets
