// What drivers of pages need, which are Python scripts on tests/support/browser.py, and what they tell.
#pragma once

#include <string>

namespace mtrun::support {

/// A driver's exit status where the browser, or what looks at pages with it, is missing.
inline constexpr int kNoBrowser = 77;

/// What MT_BROWSER_PYTHON names, else Debian's interpreter: one with selenium.
std::string BrowserPython();

/// Why a driver with that status has not driven: its last line.
std::string WhyNoBrowser(const std::string& output);

/// Copies a folder's pictures to where MT_KEEP_PICTURES says, if it says so.
void KeepPictures(const std::string& folder);

}  // namespace mtrun::support
