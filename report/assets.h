// What pages are made of beside their contents: Chart.js as Debian ships it and our own scripts and styles,
// taken into the program when it is built, so that a page needs nothing from elsewhere. Constants.
#pragma once

#include <string_view>

namespace mtrun::report {

/// Chart.js (MIT licence, its notice within); "" where the build found none.
std::string_view ChartLibrary();
/// `mtCharts.drawAll(charts)`: line charts in the page's colours (assets/charts.js).
std::string_view ChartScript();
/// Draws the charts of a report, which the element `charts` has as JSON.
std::string_view ReportScript();
/// Light and dark, on paper, on a phone (assets/page.css).
std::string_view PageStyle();

}  // namespace mtrun::report
