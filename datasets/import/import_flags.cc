#include "datasets/import/import_flags.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/processors.h"
#include "base/status_macros.h"
#include "datasets/images/image_file.h"
#include "datasets/import/importers.h"

namespace mtrun::datasets {
namespace {

std::vector<SettingSpec> MainSpecs() {
  SettingSpec format{.name = "format",
                     .default_text = "auto",
                     .help = "Format of SOURCE; auto: recognised by its files.",
                     .choices = ImporterNames()};
  format.choices.insert(format.choices.begin(), "auto");
  SettingSpec threads = NumberSpec("threads", UsableProcessors(), 1, 1024, "Decoding threads.");
  threads.otherwise = "all processors";
  SettingSpec shard = NumberSpec("shard_mib", 64, 1, 65536, "Maximum size of a shard file.");
  shard.value = "MIB";
  return {format,
          TextSpec("resize", "HEIGHTxWIDTH", "Stretch every image to this size, for example 32x32."),
          SwitchSpec("skip_bad", "false", "Leave out image files that cannot be read."),
          threads,
          SwitchSpec("force", "false", "Replace DEST if it is a packed data set with nothing else in it."),
          shard,
          NumberSpec("max_pixels", DecodeLimits().max_pixels, 1, int64_t{kMaxImageSide} * kMaxImageSide,
                     "Refuse images with more pixels; even a small file can declare a huge image.")};
}

/// Flags for the locations of splits and classes.
std::vector<SettingSpec> SourceSpecs() {
  return InGroup(
      "Splits and classes",
      {TextSpec("val_source", "SOURCE", "Source of the val images, if SOURCE holds only the train images."),
       TextSpec("test_source", "SOURCE", "Source of the test images, likewise."),
       TextSpec(
           "val_labels", "FILE",
           "File with the classes of the val images: one line \"<class>\" per image, in the order of file "
           "names, or lines \"<file> <class>\"."),
       TextSpec("class_list", "FILE",
                "File with one line per class, \"<name> ...\" or \"<number> <name> ...\", for sources that "
                "identify classes by number."),
       TextSpec(
           "image_field", "FIELD",
           "Field of WebDataset samples that holds the image, for example seg.png of x.seg.png; of several, "
           "as in jpg;png, the first one that a sample has."),
       TextSpec("class_field", "FIELD",
                "Field of WebDataset samples that holds the class, likewise: a .json, or the class as text."),
       {.name = "test_share",
        .kind = SettingSpec::Kind::kDouble,
        .default_text = "0",
        .help =
            "Fraction of each class's images, at least one, that become the test split, chosen by a hash of "
            "class and file name."},
       {.name = "val_share",
        .kind = SettingSpec::Kind::kDouble,
        .default_text = "0",
        .help = "The same for the val split, of the images that are not in test."},
       SwitchSpec("unlabelled", "false", "Ignore folder names; all images get one class.")});
}

/// Flags for the transformation of images.
std::vector<SettingSpec> ImageSpecs() {
  return InGroup(
      "Images",
      {{.name = "store",
        .default_text = "auto",
        .help = "Keep JPEG and PNG files (encoded), or pixels of one size; auto: pixels if all "
                "images have, or are resized to, the same size of at most 64x64.",
        .choices = {"auto", "encoded", "pixels"}},
       NumberSpec("short_side", 0, 0, kMaxImageSide,
                  "Shrink images whose shorter side is longer than this, keeping their shape; 0: no limit."),
       NumberSpec("max_side", 0, 0, kMaxImageSide,
                  "Shrink images whose longer side is longer than this; 0: no limit."),
       NumberSpec("quality", 90, 1, 100, "Quality of JPEG images that are encoded again."),
       TextSpec("center_crop", "HEIGHTxWIDTH",
                "Cut out the middle in this shape and resize it to this size."),
       SwitchSpec("exif", "true",
                  "Turn images upright as their EXIF orientation says; false: as stored in the files.")});
}

absl::StatusOr<std::optional<ImageSize>> SizeOf(const Settings& settings, const std::string& flag) {
  if (!settings.IsSet(flag)) return std::nullopt;
  return Annotate(ParseImageSize(settings.Text(flag)), "--" + flag);
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
  const Shares shares{.test = settings.Double("test_share"), .val = settings.Double("val_share")};
  options.tree = {
      .shares = shares, .unlabelled = settings.Bool("unlabelled"), .skip_bad = settings.Bool("skip_bad")};
  for (const auto& [flag, share] : {std::pair("test_share", shares.test), {"val_share", shares.val}}) {
    if (!(share >= 0 && share < 1))
      return absl::InvalidArgumentError(absl::StrCat("--", flag, " must be at least 0 and below 1"));
  }
  if (shares.test + shares.val >= 1)
    return absl::InvalidArgumentError("--test_share and --val_share leave no images to train on");
  return CheckRules(options.rules);
}

}  // namespace

std::vector<SettingSpec> ImportSpecs() {
  std::vector<SettingSpec> specs = MainSpecs();
  for (auto& more : {SourceSpecs(), ImageSpecs()}) specs.insert(specs.end(), more.begin(), more.end());
  return specs;
}

absl::StatusOr<ImportOptions> ReadImportFlags(const Settings& settings, const std::string& source,
                                              const std::string& destination) {
  ImportOptions options{.source = source, .destination = destination};
  options.format = settings.Text("format");
  options.val_source = settings.Text("val_source");
  options.test_source = settings.Text("test_source");
  options.val_labels = settings.Text("val_labels");
  options.class_list = settings.Text("class_list");
  for (const auto& [flag, fields] :
       {std::pair("image_field", &options.image_fields), {"class_field", &options.class_fields}})
    *fields = absl::StrSplit(settings.Text(flag), absl::ByAnyChar(";,"), absl::SkipWhitespace());
  MT_RETURN_IF_ERROR(ReadRules(settings, options));
  options.replace = settings.Bool("force");
  options.threads = static_cast<int>(settings.Int("threads"));
  options.shard_bytes = settings.Int("shard_mib") << 20;
  return options;
}

}  // namespace mtrun::datasets
