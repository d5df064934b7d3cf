#include "trainers/program/prediction_page.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/utf8.h"

namespace mtrun::trainers {
namespace {

/// The policy blocks all network requests, whatever the names of files are.
constexpr char kHead[] = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>Predictions</title>
<style>
:root { --paper: #fff; --panel: #f6f8fa; --ink: #1f2933; --soft: #5b6875; --line: #d8dee4; --accent: #0b63ce; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #12161b; --panel: #1b2128; --ink: #e4e9ee; --soft: #9aa7b4; --line: #303943; --accent: #6cb0ff; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 1rem; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .8rem; }
figure { margin: 0; background: var(--panel); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem;
  break-inside: avoid; min-width: 0; }
img { display: block; height: 8rem; max-width: 100%; margin: 0 auto .5rem; object-fit: contain; }
dl { margin: 0; display: grid; grid-template-columns: 1fr auto; gap: 0 .6rem; font-variant-numeric: tabular-nums; }
dt { overflow-wrap: anywhere; } dt:first-of-type { font-weight: 600; } dd { margin: 0; }
meter { grid-column: 1 / -1; width: 100%; height: .5rem; margin-bottom: .3rem; }
figcaption { color: var(--soft); font-size: .85rem; margin-top: .4rem; overflow-wrap: anywhere; }
</style>
</head>
<body>
<h1>Predictions</h1>
<main>
)";

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(AsPlainText(text),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace

std::string PredictionPageHead() { return kHead; }

std::string PredictionPageEntry(const Prediction& prediction) {
  const std::string file = Escaped(prediction.file);
  std::string entry = "<figure>";
  if (!prediction.jpeg.empty())
    absl::StrAppend(&entry, "<img alt=\"", file, "\" src=\"data:image/jpeg;base64,",
                    absl::Base64Escape(prediction.jpeg), "\">");
  if (!prediction.error.empty()) {
    absl::StrAppend(&entry, "<p>", Escaped(prediction.error), "</p>");
  } else {
    entry += "<dl>";
    for (const auto& [name, probability] : prediction.best)
      absl::StrAppendFormat(&entry,
                            "<dt>%s</dt><dd>%.1f %%</dd><meter value=\"%.4f\" aria-hidden=\"true\"></meter>",
                            Escaped(name), 100 * probability, probability);
    entry += "</dl>";
  }
  return absl::StrCat(entry, "<figcaption>", file, "</figcaption></figure>\n");
}

std::string PredictionPageTail() { return "</main>\n</body>\n</html>\n"; }

}  // namespace mtrun::trainers
