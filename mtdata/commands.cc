// mtdata: makes and inspects packed data sets. Exit status: 0, 1 failure, 2 usage, 128+signal if stopped.
#include <algorithm>
#include <csignal>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/standard_output.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "base/version.h"
#include "datasets/files/progress.h"
#include "datasets/images/image.h"
#include "datasets/images/image_file.h"
#include "datasets/images/png.h"
#include "datasets/import/import.h"
#include "datasets/import/import_flags.h"
#include "datasets/import/importers.h"
#include "datasets/packed/contact_sheet.h"
#include "datasets/packed/info.h"
#include "datasets/packed/packed.h"
#include "mtdata/commands.h"
#include "mtdata/stop_signal.h"

namespace mtrun::datasets {
namespace {

constexpr char kExitStatus[] =
    "Exit status: 0 success, 1 failure (the reason is on standard error), 2 wrong usage,\n"
    "128+N stopped by signal N.\n";

/// Returns "  idx         the MNIST family: ...", in lines of 80 columns.
std::string FormatLines() {
  constexpr size_t kIndent = 13, kColumns = 80;
  std::string lines;
  for (const Importer& importer : Importers())
    absl::StrAppendFormat(&lines, "  %-10s %s\n", importer.name,
                          WrappedText(importer.help, kColumns - kIndent, kIndent));
  return lines;
}

std::vector<SettingSpec> InfoSpecs() {
  return {SwitchSpec("verify", "false", "Read all files and compare them with their checksums.")};
}

std::vector<SettingSpec> ShowSpecs() {
  return {TextSpec("png", "FILE", "File to write the picture to."),
          {.name = "split", .default_text = "train", .help = "Split whose images to draw.", .value = "NAME"},
          NumberSpec("count", 64, 1, kMaxCells, "Number of images, evenly spread over the split.")};
}

std::vector<SettingSpec> VerifySpecs() { return {}; }

int Fail(int code, const absl::Status& status) {
  Complain(code, status);
  if (code == kUsage) std::cerr << "run mtdata --help for usage\n";
  return code;
}

int Fail(int code, const std::string& text) { return Fail(code, absl::UnknownError(text)); }

/// Parses the flags in `args` and returns the words around them, as many as the command takes.
absl::StatusOr<std::vector<std::string>> WordsOf(const Command& command, Settings& settings,
                                                 std::vector<std::string> args) {
  MT_ASSIGN_OR_RETURN(std::vector<std::string> words, settings.ParseWords(std::move(args)));
  const size_t count = command.words.size();
  if (words.size() == count) return words;
  if (!command.give.empty()) return absl::InvalidArgumentError(command.give);
  const std::string expected = absl::StrJoin(command.words, " and ");
  if (words.size() < count) return absl::InvalidArgumentError(absl::StrCat("give ", expected));
  return absl::InvalidArgumentError(
      absl::StrCat("\"", words[count], "\" is one argument too many; expected ", expected));
}

/// Says what became of images whose files have an orientation; empty if there are none.
std::string OrientedText(int64_t oriented, bool turned) {
  if (oriented == 0) return "";
  return absl::StrCat(
      WithCommas(oriented),
      turned ? " turned upright, as their EXIF orientation says (--exif=false keeps them as stored)\n"
             : " kept as stored, though they have an EXIF orientation (--exif=false)\n");
}

int RunImport(const Settings& settings, const std::vector<std::string>& words) {
  const auto options = ReadImportFlags(settings, words[0], words[1]);
  if (!options.ok()) return Fail(kUsage, options.status());

  mtdata::StopAtSignals(SA_RESTART | SA_RESETHAND);  // the import removes its folder; a second signal kills
  const auto report = Import(*options, mtdata::Stopped());
  if (absl::IsCancelled(report.status()))
    return Fail(mtdata::StoppedStatus(),
                "stopped; nothing was imported (the same command continues from the finished shards of "
                "encoded images)");
  if (!report.ok()) return Fail(kFailure, report.status());
  const auto bad_files = static_cast<int64_t>(report->left_out.size());
  for (const BadFile& bad : report->left_out)
    log::Warning("left out ", AsPlainText(bad.path), ": ", AsPlainText(bad.why));
  std::cout << InfoText(options->destination, report->index)
            << absl::StrFormat("\nimported %s images (%s) in %.1f s, %s left out\n",
                               WithCommas(report->index.images()), report->format, report->seconds,
                               WithCommas(bad_files + report->counts.files()))
            << OrientedText(report->oriented, options->rules.exif) << LeftOutText(bad_files, report->counts);
  return 0;
}

int RunInfo(const Settings& settings, const std::vector<std::string>& words) {
  const std::string& path = words[0];
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
  return settings.Bool("verify") ? Answer("\nverified: the SHA-256 of every shard is correct\n") : 0;
}

int RunShow(const Settings& settings, const std::vector<std::string>& words) {
  const std::string& path = words[0];
  const std::string png = settings.Text("png"), name = settings.Text("split");
  if (png.empty()) return Fail(kUsage, "give --png FILE, the file to write the picture to");
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

/// Compares every byte with the checksums and decodes every encoded image.
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

int RunVerify(const Settings&, const std::vector<std::string>& words) {
  const std::string& path = words[0];
  const auto index = ReadIndex(path);
  if (!index.ok()) return Fail(kFailure, index.status());
  for (const auto& [name, split] : index->splits) {
    if (const absl::Status status = VerifySplit(path, name); !status.ok()) return Fail(kFailure, status);
  }
  return Answer(absl::StrCat("verified: the SHA-256 of every shard is correct",
                             index->encoded ? ", every image decodes" : "", "\n"));
}

HelpPage ImportHelp() {
  return {.purpose = "Makes a packed data set, the folder DEST, from the images of SOURCE.",
          .usage = {"mtdata import SOURCE DEST [flags]"},
          .examples = {{"Debian's package dataset-fashion-mnist",
                        "mtdata import /usr/share/datasets/fashion-mnist data/fashion-mnist"},
                       {"photos of any size, all stretched to 64x64",
                        "mtdata import photos/ data/photos64 --resize 64x64 --skip_bad"},
                       {"an archive; larger images are shrunk and stay JPEG files",
                        "mtdata import photos.tar.gz data/photos224 --short_side 224"}},
          .notes = absl::StrCat(
              "SOURCE is one of\n", FormatLines(),
              "Archives are .tar, .tar.gz, .tar.bz2, .tar.xz, .tar.zst or .zip. A .tar is read in\n"
              "place; a compressed one is first unpacked to an unnamed temporary file next to DEST.\n\n"
              "DEST appears only when it is complete. The same source gives the same bytes on every\n"
              "machine and with any --threads: compare the digests of `mtdata info`.\n")};
}

std::vector<Command> Commands() {
  return {{"import", ImportHelp(), ImportSpecs, {"SOURCE", "DEST"}, RunImport},
          {"info",
           {.purpose = "Describes a packed data set: splits, classes, sizes, digest.",
            .usage = {"mtdata info PATH [--verify]"},
            .examples = {{"splits, classes and digest", "mtdata info data/photos"},
                         {"the same, and compare all files with their checksums",
                          "mtdata info data/photos --verify"}}},
           InfoSpecs,
           {"PATH"},
           RunInfo},
          {"show",
           {.purpose = "Draws images of a packed data set in one picture.",
            .usage = {"mtdata show PATH --png FILE [flags]"},
            .examples = {{"64 training images", "mtdata show data/photos --png photos.png"},
                         {"4 test images", "mtdata show data/photos --png test.png --split test --count 4"}}},
           ShowSpecs,
           {"PATH"},
           RunShow},
          {"verify",
           {.purpose = "Compares all files of a data set with their checksums and decodes all images.",
            .usage = {"mtdata verify PATH"},
            .examples = {{"print what is damaged, if anything is", "mtdata verify data/photos"}}},
           VerifySpecs,
           {"PATH"},
           RunVerify},
          mtdata::ServeCommand(),
          mtdata::FetchCommand(),
          mtdata::WeightsCommand(),
          mtdata::KeyCommand(),
          mtdata::BearerCommand()};
}

std::string CommandHelp(const Command& command) {
  return HelpText(command.help, Settings("mtdata", command.specs()).Help());
}

std::string Overview(const std::vector<Command>& commands) {
  HelpPage page = {
      .purpose = "Makes, inspects and serves the packed data sets that the trainers read.",
      .usage = {"mtdata COMMAND [arguments] [flags]", "mtdata COMMAND --help", "mtdata --version"},
      .examples = {{"pack a folder of images: <class>/<image>", "mtdata import photos/ data/photos"},
                   {"describe it", "mtdata info data/photos"},
                   {"draw some of its images", "mtdata show data/photos --png photos.png"}},
      .notes = "Commands:\n"};
  for (const Command& command : commands)
    absl::StrAppendFormat(&page.notes, "  %-8s  %s\n", command.name, command.help.purpose);
  return HelpText(page, absl::StrCat("\n", kExitStatus));
}

int RunOne(const Command& command, const std::vector<std::string>& args) {
  Settings settings(absl::StrCat("mtdata ", command.name), command.specs());
  const auto words = WordsOf(command, settings, args);
  if (words.ok()) return command.run(settings, *words);
  return command.give.empty() ? Fail(kUsage, words.status()) : Complain(kUsage, words.status());
}

}  // namespace

int Complain(int code, const absl::Status& status) {
  PrintError("mtdata", status.message());
  return code;
}

int Answer(std::string_view text) {
  const absl::Status told = PrintOut(text);
  return told.ok() ? 0 : Complain(kFailure, told);
}

int RunCommand(const std::vector<std::string>& args) {
  const std::vector<Command> commands = Commands();
  if (args.empty()) return Answer(Overview(commands)), kUsage;
  if (args[0] == "--version") return Answer(VersionLine("mtdata") + "\n");
  const auto named = [&](const Command& command) { return command.name == args[0]; };
  const auto command = std::find_if(commands.begin(), commands.end(), named);
  const auto asks_help = [](const std::string& arg) { return arg == "--help" || arg == "-h"; };
  if (args[0] == "help" || std::any_of(args.begin(), args.end(), asks_help))
    return Answer(command == commands.end() ? Overview(commands) : CommandHelp(*command));
  if (command != commands.end()) return RunOne(*command, {args.begin() + 1, args.end()});
  std::vector<std::string> names;
  for (const Command& each : commands) names.push_back(each.name);
  const std::string near = NearestName(args[0], names);
  return Fail(kUsage, absl::StrCat("unknown command \"", args[0], "\"",
                                   near.empty() ? "" : "; did you mean " + near + "?"));
}

}  // namespace mtrun::datasets
