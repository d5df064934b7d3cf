// The files of page/assets, which the build embeds in the program.
#pragma once

#include <string>

namespace mtrun::page {

const std::string& PageHtml();
const std::string& PageCss();
const std::string& PageJs();
const std::string& PartsJs();
const std::string& ChartJs();
const std::string& IconSvg();

}  // namespace mtrun::page
