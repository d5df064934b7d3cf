// mtdata: makes and inspects packed data sets. Exit status: 0, 1 failure, 2 usage, 128+signal when stopped.
#include <sched.h>

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
#include "base/log.h"
#include "base/posix.h"
#include "base/settings.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "datasets/contact_sheet.h"
#include "datasets/images/image.h"
#include "datasets/images/image_file.h"
#include "datasets/images/png.h"
#include "datasets/import.h"
#include "datasets/importers.h"
#include "datasets/info.h"
#include "datasets/packed.h"
#include "datasets/progress.h"

namespace mtrun::datasets {
namespace {

constexpr int kFailure = 1, kUsage = 2;

constexpr char kHelp[] = R"(mtdata makes and inspects the packed data sets that the trainers read.

usage: mtdata import SOURCE DEST [flags]   make the data set DEST (a new folder) from SOURCE
       mtdata info PATH [--verify]         show what the data set PATH holds
       mtdata show PATH --png FILE [flags] draw images of the data set PATH as one picture
       mtdata verify PATH                  compare every byte with the checksums and decode every encoded image
       mtdata --version

SOURCE is one of
)";
constexpr char kAboutDest[] = R"(Archives are .tar, .tar.gz, .tar.bz2, .tar.xz or .tar.zst.

DEST appears only when it is complete. The same source gives the same bytes on every machine, whatever --threads is;
the digest that `info` shows tells whether two nodes have the same data. docs/formats.md describes the files.
)";
constexpr char kExamples[] = R"(
examples:
  mtdata import /usr/share/datasets/fashion-mnist data/fashion-mnist
  mtdata import cifar-10-binary.tar.gz data/cifar10
  mtdata import photos/ data/photos --resize 64x64 --skip_bad
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

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

/// "  idx      the MNIST family: ...", a line each.
std::string FormatLines() {
  std::string lines;
  for (const Importer& importer : Importers())
    absl::StrAppendFormat(&lines, "  %-8s %s\n", importer.name, importer.help);
  return lines;
}

std::vector<SettingSpec> ImportSpecs() {
  using Kind = SettingSpec::Kind;
  const std::string group = "flags of import";
  std::vector<SettingSpec> specs(7);
  specs[0] = {.name = "format", .default_text = "auto", .help = "What SOURCE is.", .group = group};
  specs[0].choices = ImporterNames();
  specs[0].choices.insert(specs[0].choices.begin(), "auto");
  specs[1] = {.name = "resize", .help = "Stretch every image to HEIGHTxWIDTH, as in 32x32.", .group = group};
  specs[2] = {.name = "skip_bad",
              .kind = Kind::kBool,
              .default_text = "false",
              .help = "Leave out image files that cannot be read.",
              .group = group};
  specs[3] = {.name = "threads",
              .kind = Kind::kInt,
              .default_text = absl::StrCat(UsableCores()),
              .help = "Threads that decode (default: all cores).",
              .group = group};
  specs[3].min = 1;
  specs[3].max = 1024;
  specs[4] = {.name = "force",
              .kind = Kind::kBool,
              .default_text = "false",
              .help = "Replace DEST when it is a packed data set already.",
              .group = group};
  specs[5] = {.name = "shard_mib",
              .kind = Kind::kInt,
              .default_text = "64",
              .help = "Largest size of one shard file, in MiB.",
              .group = group};
  specs[5].min = 1;
  specs[5].max = 65536;
  specs[6] = {.name = "max_pixels",
              .kind = Kind::kInt,
              .default_text = absl::StrCat(DecodeLimits().max_pixels),
              .help = "Refuse larger images: a small file may claim any size.",
              .group = group};
  specs[6].min = 1;
  specs[6].max = int64_t{kMaxImageSide} * kMaxImageSide;
  return specs;
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

int Fail(int code, const std::string& text) {
  std::cerr << "mtdata: " << text << "\n";
  if (code == kUsage) std::cerr << "mtdata --help tells how to use it\n";
  return code;
}

int Fail(int code, const absl::Status& status) { return Fail(code, std::string(status.message())); }

/// Flags may stand before, between and after the positional arguments.
absl::StatusOr<std::vector<std::string>> Positionals(Settings& settings, std::vector<std::string> args,
                                                     const std::vector<std::string>& names) {
  std::vector<std::string> positionals;
  while (!args.empty()) {
    MT_ASSIGN_OR_RETURN(args, settings.ParseFlags(args, /*positionals_allowed=*/true));
    if (args.empty()) break;
    positionals.push_back(args.front());
    args.erase(args.begin());
  }
  if (positionals.size() == names.size()) return positionals;
  const std::string expected = absl::StrJoin(names, " and ");
  if (positionals.size() < names.size()) return absl::InvalidArgumentError(absl::StrCat("give ", expected));
  return absl::InvalidArgumentError(
      absl::StrCat("\"", positionals[names.size()], "\" is one argument too many; give ", expected));
}

/// Flags of what becomes of the images.
std::vector<SettingSpec> ImageSpecs() {
  using Kind = SettingSpec::Kind;
  const std::string group = "flags of import: images";
  const auto number = [&](const char* name, const char* text, int64_t min, int64_t max, const char* help) {
    SettingSpec spec{.name = name, .kind = Kind::kInt, .default_text = text, .help = help, .group = group};
    spec.min = min;
    spec.max = max;
    return spec;
  };
  SettingSpec store{.name = "store",
                    .default_text = "auto",
                    .help =
                        "Keep JPEG and PNG files (encoded), or pixels of one size; auto: pixels where all "
                        "images have one size of at most 64x64, or are given one.",
                    .group = group};
  store.choices = {"auto", "encoded", "pixels"};
  return {store,
          number("short_side", "0", 0, kMaxImageSide,
                 "Make images smaller whose shorter side is longer, keeping their shape (0: any)."),
          number("max_side", "0", 0, kMaxImageSide, "The same for the longer side."),
          number("quality", "90", 1, 100, "Of JPEG images that are encoded again."),
          {.name = "center_crop",
           .help = "Cut the middle out in this shape, resize it to HEIGHTxWIDTH.",
           .group = group},
          {.name = "exif",
           .kind = Kind::kBool,
           .default_text = "false",
           .help = "Turn images as the camera says.",
           .group = group},
          {.name = "test_share",
           .kind = Kind::kDouble,
           .default_text = "0",
           .help = "Share of the images that become the test split, by a hash of class and file name.",
           .group = group},
          {.name = "unlabelled",
           .kind = Kind::kBool,
           .default_text = "false",
           .help = "Folders are no classes: all images are of one.",
           .group = group}};
}

std::vector<SettingSpec> AllImportSpecs() {
  std::vector<SettingSpec> specs = ImportSpecs();
  for (SettingSpec& spec : ImageSpecs()) specs.push_back(std::move(spec));
  return specs;
}

absl::StatusOr<std::optional<ImageSize>> SizeOf(const Settings& settings, const std::string& flag) {
  if (!settings.IsSet(flag)) return std::nullopt;
  const auto size = ParseImageSize(settings.Text(flag));
  if (!size.ok()) return Annotate(size.status(), "--" + flag);
  return *size;
}

absl::Status ReadRules(const Settings& settings, ImportOptions& options) {
  MT_ASSIGN_OR_RETURN(options.rules.stretch, SizeOf(settings, "resize"));
  MT_ASSIGN_OR_RETURN(options.rules.centre, SizeOf(settings, "center_crop"));
  options.rules.short_side = static_cast<int>(settings.Int("short_side"));
  options.rules.max_side = static_cast<int>(settings.Int("max_side"));
  options.rules.quality = static_cast<int>(settings.Int("quality"));
  options.rules.exif = settings.Bool("exif");
  options.rules.limits.max_pixels = settings.Int("max_pixels");
  const std::string store = settings.Text("store");
  options.store = store == "auto" ? Store::kAuto : store == "pixels" ? Store::kPixels : Store::kEncoded;
  options.tree = {.test_share = settings.Double("test_share"), .unlabelled = settings.Bool("unlabelled")};
  if (options.tree.test_share < 0 || options.tree.test_share >= 1)
    return absl::InvalidArgumentError("--test_share is at least 0 and below 1");
  return CheckRules(options.rules);
}

int RunImport(const std::vector<std::string>& args) {
  Settings settings("mtdata import", AllImportSpecs());
  const auto positionals = Positionals(settings, args, {"SOURCE", "DEST"});
  if (!positionals.ok()) return Fail(kUsage, positionals.status());
  ImportOptions options{.source = (*positionals)[0], .destination = (*positionals)[1]};
  options.format = settings.Text("format");
  if (const absl::Status read = ReadRules(settings, options); !read.ok()) return Fail(kUsage, read);
  options.skip_bad = settings.Bool("skip_bad");
  options.replace = settings.Bool("force");
  options.threads = static_cast<int>(settings.Int("threads"));
  options.shard_bytes = settings.Int("shard_mib") << 20;

  CatchStopSignals();
  const auto report = Import(options, cancelled);
  if (absl::IsCancelled(report.status()))
    return Fail(128 + stop_signal,
                "stopped; nothing was imported (finished shards of encoded images are kept for "
                "the same command)");
  if (!report.ok()) return Fail(kFailure, report.status());
  for (const BadFile& bad : report->left_out) log::Warning("left out ", bad.path, ": ", bad.why);
  std::cout << InfoText(options.destination, report->index)
            << absl::StrFormat("\nimported %s images (%s) in %.1f s, %s left out\n",
                               WithCommas(report->index.images()), report->format, report->seconds,
                               WithCommas(static_cast<int64_t>(report->left_out.size())));
  return 0;
}

int RunInfo(const std::vector<std::string>& args) {
  Settings settings("mtdata info", InfoSpecs());
  const auto positionals = Positionals(settings, args, {"PATH"});
  if (!positionals.ok()) return Fail(kUsage, positionals.status());
  const std::string path = positionals->front();
  const auto index = ReadIndex(path);
  if (!index.ok()) return Fail(kFailure, index.status());
  std::cout << InfoText(path, *index);
  for (const auto& [name, split] : index->splits) {
    const auto opened = PackedSplit::Open(path, name, settings.Bool("verify"));
    if (!opened.ok()) return Fail(kFailure, opened.status());
  }
  if (index->encoded) {
    const auto census = TakeCensus(path, *index);
    if (!census.ok()) return Fail(kFailure, census.status());
    std::cout << "\n" << CensusText(*census);
  }
  if (settings.Bool("verify")) std::cout << "\nverified: every shard has its SHA-256\n";
  return 0;
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
  std::cout << CellTable(*sheet, *split)
            << absl::StrFormat("\n%s: %d of the %s images of %s, %d in a row\n", png, sheet->images.size(),
                               WithCommas(split->size()), name, sheet->columns);
  return 0;
}

/// Every byte against the checksums, and every encoded image decoded.
absl::Status VerifySplit(const std::string& path, const std::string& name) {
  MT_ASSIGN_OR_RETURN(const PackedSplit split, PackedSplit::Open(path, name, /*verify=*/true));
  for (int64_t i = 0; split.encoded() && i < split.size(); ++i) {
    const auto image = DecodeImage(split.record(i), {.max_pixels = INT64_MAX});
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
  std::cout << "verified: every shard has its SHA-256" << (index->encoded ? ", every image decodes" : "")
            << "\n";
  return 0;
}

int Run(const std::vector<std::string>& args) {
  const auto asks_help = [](const std::string& arg) { return arg == "--help" || arg == "-h"; };
  if (args.empty() || args[0] == "help" || std::any_of(args.begin(), args.end(), asks_help)) {
    std::cout << kHelp << FormatLines() << kAboutDest << Settings("mtdata", AllImportSpecs()).Help()
              << Settings("mtdata", InfoSpecs()).Help() << Settings("mtdata", ShowSpecs()).Help()
              << kExamples;
    return args.empty() ? kUsage : 0;
  }
  if (args[0] == "--version") {
    std::cout << "mtdata " << Version() << "\n";
    return 0;
  }
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (args[0] == "import") return RunImport(rest);
  if (args[0] == "info") return RunInfo(rest);
  if (args[0] == "show") return RunShow(rest);
  if (args[0] == "verify") return RunVerify(rest);
  const std::string near = NearestName(args[0], {"import", "info", "show", "verify"});
  return Fail(kUsage, absl::StrCat("unknown command \"", args[0], "\"",
                                   near.empty() ? "" : "; did you mean " + near + "?"));
}

}  // namespace
}  // namespace mtrun::datasets

int main(int argc, char** argv) {
  mtrun::log::SetUp("mtdata", mtrun::log::Level::kInfo);
  return mtrun::datasets::Run({argv + 1, argv + argc});
}
