// Chart.js as Debian ships it and our own scripts and styles, embedded in the program by the build, so that
// pages load nothing from elsewhere. Constants.
#pragma once

#include <string_view>

namespace mtrun::report {

/// Returns Chart.js (MIT licence, notice included); "" if the build found none.
std::string_view ChartLibrary();
/// Returns `mtCharts.drawAll(charts)`: line charts in the page's colours (assets/charts.js).
std::string_view ChartScript();
/// Returns the script that draws a report's charts, whose JSON is in the element `charts`.
std::string_view ReportScript();
/// Returns the style for light, dark, paper and phone (assets/page.css).
std::string_view PageStyle();

}  // namespace mtrun::report
