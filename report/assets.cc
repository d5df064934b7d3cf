#include "report/assets.h"

// GCC 12 lacks #embed, so the assembler includes the files. CMake passes their paths and rebuilds this file
// if one changes.
#define MT_EMBED(symbol, path)                                                                     \
  asm(".section .rodata\n" #symbol ":\n.incbin \"" path "\"\n" #symbol "_end:\n.byte 0\n.text\n"); \
  extern "C" const char symbol[], symbol##_end[];

MT_EMBED(mt_asset_chart_library, MT_CHART_LIBRARY)
MT_EMBED(mt_asset_charts, MT_ASSETS "/charts.js")
MT_EMBED(mt_asset_report, MT_ASSETS "/report.js")
MT_EMBED(mt_asset_style, MT_ASSETS "/page.css")

namespace mtrun::report {
namespace {

std::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

std::string_view ChartLibrary() { return Between(mt_asset_chart_library, mt_asset_chart_library_end); }
std::string_view ChartScript() { return Between(mt_asset_charts, mt_asset_charts_end); }
std::string_view ReportScript() { return Between(mt_asset_report, mt_asset_report_end); }
std::string_view PageStyle() { return Between(mt_asset_style, mt_asset_style_end); }

}  // namespace mtrun::report
