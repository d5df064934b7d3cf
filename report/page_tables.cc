// The sections of a page about one run.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "report/html.h"
#include "report/page.h"
#include "report/run_reader.h"

namespace mtrun::report {
namespace {

using html::Cell;
using html::Escape;
using html::Grouped;
using html::Percent;

std::string Plain(double value) { return std::isfinite(value) ? absl::StrFormat("%.4f", value) : "?"; }

std::string Tile(const std::string& value, const std::string& name) {
  return absl::StrCat("<div class=\"tile\"><b>", Escape(value), "</b><span>", Escape(name), "</span></div>");
}

std::string Section(const std::string& heading, const std::string& body) {
  return body.empty() ? "" : absl::StrCat("<h2>", Escape(heading), "</h2>\n", body);
}

std::string Lost(const RunRecord& run) {
  double lost = 0;
  for (const Generation& generation : run.generations) lost += generation.lost.value_or(0);
  return SecondsText(lost);
}

std::string EpochRows(const RunRecord& run) {
  std::vector<std::vector<Cell>> rows;
  const bool classified = std::any_of(run.epochs.begin(), run.epochs.end(),
                                      [](const auto& e) { return e.test_accuracy.has_value(); });
  for (const EpochPoint& epoch : run.epochs) {
    const bool best = run.result && run.result->best_epoch == epoch.epoch;
    std::vector<Cell> row = {{absl::StrCat(epoch.epoch), true, false, best ? "best" : ""},
                             {Grouped(epoch.steps), true},
                             {Plain(epoch.train_loss), true},
                             {Plain(epoch.test_loss), true}};
    if (classified) {
      row.push_back({Percent(epoch.train_accuracy.value_or(NAN)), true});
      row.push_back({Percent(epoch.test_accuracy.value_or(NAN)), true});
    }
    row.push_back({SecondsText(epoch.seconds), true});
    rows.push_back(row);
  }
  const std::string on = EvaluatedOn(run);
  std::vector<Cell> head = {
      {"epoch", true}, {"steps", true}, {"train loss", true}, {absl::StrCat(on, " loss"), true}};
  if (classified) head.insert(head.end(), {{"train accuracy", true}, {absl::StrCat(on, " accuracy"), true}});
  head.push_back({"training", true});
  return html::TableOf(head, rows);
}

std::string Classes(const Result& result) {
  std::vector<std::vector<Cell>> rows;
  for (const ClassRow& row : result.classes) {
    const bool untested = result.IsUntested(row);
    const auto figure = [&](double share) { return untested ? "" : Percent(share); };
    rows.push_back({{row.name},
                    {untested ? "no images" : Grouped(row.images), true},
                    {figure(row.recall), true},
                    {figure(row.precision), true},
                    {figure(row.f1), true}});
  }
  return html::TableOf(
      {{"class"}, {"test images", true}, {"recall", true}, {"precision", true}, {"F1", true}}, rows);
}

/// Wider tables are unreadable.
constexpr size_t kMaxColumns = 40;

std::string Matrix(const Result& result) {
  const size_t classes = result.confusion.size();
  if (classes == 0) return "";
  if (classes > kMaxColumns)
    return "<p class=\"note\">The matrix has more than 40 classes; it is in report.json.</p>";
  const auto named = [&](size_t c) { return classes > 12 ? absl::StrCat(c) : result.classes[c].name; };
  std::string out =
      "<p class=\"note\">Rows are actual classes, columns are predicted ones; a stronger colour is a larger "
      "share of the row.</p>"
      "<div class=\"scroll fit\" tabindex=\"0\"><table class=\"matrix\"><thead><tr><td></td>";
  for (size_t c = 0; c < classes; ++c)
    absl::StrAppend(&out, "<th title=\"", Escape(result.classes[c].name), "\">", Escape(named(c)), "</th>");
  out += "</tr></thead><tbody>";
  for (size_t actual = 0; actual < classes; ++actual) {
    const std::string number = classes > 12 ? absl::StrCat(actual, " ") : "";
    absl::StrAppend(&out, "<tr><th>", number, Escape(result.classes[actual].name), "</th>");
    for (const int64_t count : result.confusion[actual]) {
      const double share = static_cast<double>(count) /
                           static_cast<double>(std::max<int64_t>(1, result.classes[actual].images));
      const char* const kind = count == 0 ? " class=\"zero\"" : "";
      absl::StrAppendFormat(&out, "<td%s style=\"--v:%.3f\">%d</td>", kind, share, count);
    }
    out += "</tr>";
  }
  return out + "</tbody></table></div>\n";
}

std::string Members(const Generation& generation) {
  return absl::StrJoin(generation.members, ", ", [](std::string* out, const auto& member) {
    absl::StrAppend(out, member.first, member.second > 1 ? absl::StrCat(" (", member.second, ")") : "");
  });
}

/// Returns "2026-11-25 03:46:10", or "" if the time is unknown.
std::string TimeText(double seconds) {
  constexpr double kMost = 4e9;  // upper bound of plausible times
  if (!(seconds > 0 && seconds < kMost)) return "";
  const std::string text = WallClockText(static_cast<int64_t>(seconds * 1e9));
  return absl::StrCat(text.substr(0, 10), " ", text.substr(11, 8));
}

std::string Generations(const RunRecord& run) {
  std::vector<std::vector<Cell>> rows;
  for (const Generation& generation : run.generations) {
    std::string lost = generation.lost ? SecondsText(*generation.lost) : "";
    const bool began = generation.first_step == 0 && generation.why.empty();
    rows.push_back({{absl::StrCat(generation.number), true},
                    {Grouped(generation.first_step), true},
                    {TimeText(generation.time)},
                    {generation.world > 0 ? absl::StrCat(generation.world) : "", true},
                    {Members(generation)},
                    {began ? "the run began" : generation.why},
                    {lost, true},
                    {generation.redone > 0 ? Grouped(generation.redone) : "", true}});
  }
  return html::TableOf({{"generation", true},
                        {"from step", true},
                        {"began (UTC)"},
                        {"workers", true},
                        {"nodes (workers)"},
                        {"because"},
                        {"lost", true},
                        {"steps redone", true}},
                       rows);
}

std::string Checkpoints(const RunRecord& run) {
  std::vector<std::vector<Cell>> rows;
  for (const Checkpoint& checkpoint : run.checkpoints) {
    rows.push_back({{absl::StrCat("step_", checkpoint.steps), false, true, checkpoint.best ? "best" : ""},
                    {html::Bytes(checkpoint.bytes), true},
                    {checkpoint.weights.substr(0, 16), false, true}});
  }
  std::string out = html::TableOf({{"folder"}, {"size", true}, {"SHA-256 of the weights"}}, rows);
  double stall = 0;
  for (const auto& save : run.saves) stall += save.second;
  if (!run.saves.empty()) {
    absl::StrAppend(&out, "<p class=\"note\">", run.saves.size(),
                    " checkpoints saved; saving paused the training for ", SecondsText(stall), ".</p>\n");
  }
  return out;
}

std::string Pictures(const RunRecord& run) {
  if (run.pictures.empty()) return "";
  std::string out = "<div class=\"pictures\">";
  for (const Picture& picture : run.pictures) {
    absl::StrAppend(&out, "<figure><img alt=\"", Escape(picture.name), "\" src=\"data:image/png;base64,",
                    html::Base64(picture.png), "\"><figcaption>", Escape(picture.name),
                    "</figcaption></figure>");
  }
  return out + "</div>\n";
}

/// Returns the pictures of images with their two classes.
std::string Guesses(const RunRecord& run, const std::vector<NotableImage>& images) {
  if (images.empty() || !run.result) return "";
  std::string out = "<div class=\"guesses\">";
  for (const NotableImage& image : images) {
    const std::string guess = Escape(run.result->classes[image.guess].name),
                      label = Escape(run.result->classes[image.label].name);
    const bool right = image.guess == image.label;
    const std::string said =
        right ? std::string("which is right") : absl::StrCat("but is <b>", label, "</b>");
    const std::string picture =
        image.png.empty() ? "<div class=\"none\">no picture</div>"
                          : absl::StrCat("<img alt=\"test image ", image.image,
                                         "\" src=\"data:image/png;base64,", html::Base64(image.png), "\">");
    absl::StrAppend(&out, "<figure>", picture, "<figcaption><span>", Percent(image.probability), " <b>",
                    guess, "</b></span><span>", said, "</span><span class=\"number\">image ",
                    Grouped(image.image), "</span></figcaption></figure>");
  }
  return out + "</div>\n";
}

std::string Stragglers(const RunRecord& run) {
  std::vector<int> named;
  for (const WorkerPoint& point : run.workers) {
    if (point.straggler && (named.empty() || named.back() != *point.straggler))
      named.push_back(*point.straggler);
  }
  if (named.empty()) return "";
  return absl::StrCat("<p class=\"warn\">Slower than 1.3 times the median for at least a minute: rank ",
                      absl::StrJoin(named, ", rank "), ".</p>\n");
}

}  // namespace

std::string Tiles(const RunRecord& run) {
  std::string out = "<div class=\"tiles\">";
  if (const auto& result = run.result) {
    if (result->test_accuracy) {
      const std::string tested =
          result->tested_epoch > 0 ? absl::StrCat(", of epoch ", result->tested_epoch) : "";
      out += Tile(Percent(*result->test_accuracy), absl::StrCat("test accuracy", tested));
      out += Tile(Percent(result->best_accuracy.value_or(NAN)),
                  absl::StrCat("best", result->chosen_by_validation ? " by validation" : "", ", in epoch ",
                               result->best_epoch));
    }
    out += Tile(Plain(result->test_loss), "test loss");
    out += Tile(absl::StrCat(Grouped(result->epochs), " / ", Grouped(result->steps)), "epochs / steps");
    out += Tile(SecondsText(result->seconds), "total time");
    out += Tile(std::isfinite(result->images_per_second)
                    ? Grouped(static_cast<int64_t>(std::clamp(result->images_per_second, 0.0, 1e15)))
                    : "?",
                "images/s");
    out += Tile(
        absl::StrCat(result->world, result->nodes > 1 ? absl::StrCat(" on ", result->nodes, " nodes") : ""),
        "workers at the end");
  } else {
    out += Tile(Grouped(run.steps.empty() ? 0 : run.steps.back().step + 1), "steps so far");
    if (!run.epochs.empty())
      out += Tile(Plain(run.epochs.back().test_loss), absl::StrCat("last ", EvaluatedOn(run), " loss"));
    if (!run.epochs.empty() && run.epochs.back().test_accuracy)
      out += Tile(Percent(*run.epochs.back().test_accuracy),
                  absl::StrCat("last ", EvaluatedOn(run), " accuracy"));
  }
  if (run.generations.size() > 1) {
    out += Tile(absl::StrCat(run.generations.size() - 1), "membership changes");
    out += Tile(Lost(run), "time lost by them");
  }
  return out + "</div>\n";
}

std::string Sections(const RunRecord& run) {
  std::string out;
  if (!run.result) out += "<p class=\"warn\">This run is not complete: it has no report.json.</p>\n";
  if (run.unread_lines > 0) {
    absl::StrAppend(
        &out, "<p class=\"warn\">", run.unread_lines, run.unread_lines == 1 ? " line" : " lines",
        " in metrics.jsonl could not be read: left by a killed writer, or written by a later release.</p>\n");
  }
  out += Stragglers(run);
  out += Section("Epochs", EpochRows(run));
  if (run.result) {
    out += Section("Classes", Classes(*run.result));
    out += Section("Confusion matrix", Matrix(*run.result));
    out += Section("Most confident mistakes", Guesses(run, run.mistakes));
    out += Section("Least certain images", Guesses(run, run.uncertain));
  }
  out += Section("Timeline", Generations(run));
  out += Section("Checkpoints", Checkpoints(run));
  out += Section("Pictures", Pictures(run));
  out += Section("Settings", run.settings.empty() ? "" : html::Pairs(run.settings));
  out += Section("Environment", run.environment.empty() ? "" : html::Pairs(run.environment));
  return out;
}

}  // namespace mtrun::report
