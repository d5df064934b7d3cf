#include "report/page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/version.h"
#include "report/assets.h"
#include "report/html.h"

namespace mtrun::report {
namespace {

using html::Escape;

/// Blocks all network requests, whatever the page contains.
constexpr char kPolicy[] =
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri "
    "'none'; "
    "form-action 'none'";

std::string Names(const std::vector<RunRecord>& runs) {
  return absl::StrJoin(runs, ", ", [](std::string* out, const RunRecord& run) {
    absl::StrAppend(out, run.program, run.program.empty() ? "" : " ", run.name);
  });
}

std::string Title(const nlohmann::ordered_json& chart) {
  const std::string id = chart["id"];
  if (id == "loss") return "Loss";
  if (id == "accuracy") return "Accuracy";
  if (id == "rate") return "Learning rate";
  if (id == "throughput") return "Throughput";
  if (id == "world") return "Workers";
  return "Compute and data, by worker";
}

std::string Canvases(const nlohmann::ordered_json& charts) {
  std::string out = "<div class=\"charts\">\n";
  for (const auto& chart : charts) {
    const std::string title = Title(chart), id = chart["id"];
    absl::StrAppend(&out, "<section class=\"chart\"><h3>", title, "</h3><div><canvas id=\"", id,
                    "\" role=\"img\" aria-label=\"", title, "\"></canvas></div></section>\n");
  }
  return out + "</div>\n";
}

std::string Script(std::string_view text) {
  return absl::StrCat("<script>", std::string(text), "</script>\n");
}

std::string Head(const std::string& title) {
  return absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
                      "<meta name=\"color-scheme\" content=\"light dark\">\n",
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"", kPolicy, "\">\n<title>",
                      title, "</title>\n<style>\n", std::string(PageStyle()), "</style>\n</head>\n<body>\n");
}

std::string Body(const std::vector<RunRecord>& runs) {
  if (runs.size() == 1) return Sections(runs[0]);
  std::string out;
  for (const RunRecord& run : runs) {
    absl::StrAppend(&out, "<h2>", Escape(run.name), "</h2>\n", Tiles(run), "<details><summary>Details of ",
                    Escape(run.name), "</summary>\n", Sections(run), "</details>\n");
  }
  return out;
}

}  // namespace

std::string Page(const std::vector<RunRecord>& runs, const std::string& made) {
  const nlohmann::ordered_json charts = ChartsOf(runs);
  const std::string title = Escape(Names(runs));
  const std::string marks =
      runs.size() == 1 && runs[0].generations.size() > 1
          ? "<p class=\"note\">Dashed lines mark membership changes. Point at one to see the reason.</p>\n"
          : "";
  return absl::StrCat(Head(title), "<header><h1>", title, "</h1><p>",
                      runs.size() == 1 ? "mtrun run" : "mtrun runs", "; page created ", Escape(made),
                      "</p></header>\n<main>\n", runs.size() == 1 ? Tiles(runs[0]) : "", "<h2>Curves</h2>\n",
                      Canvases(charts), marks, Body(runs), "</main>\n<footer>mtrun ", Escape(Version()),
                      ". Curves by Chart.js.</footer>\n", "<script type=\"application/json\" id=\"charts\">",
                      html::Embed(charts), "</script>\n", Script(ChartLibrary()), Script(ChartScript()),
                      Script(ReportScript()), "</body>\n</html>\n");
}

}  // namespace mtrun::report
