// Helpers for drivers of pages, which are Python scripts that use tests/support/browser.py.
#pragma once

#include <string>

namespace mtrun::support {

/// A driver's exit status if the browser or a tool for it is missing.
inline constexpr int kNoBrowser = 77;

/// Returns $MT_BROWSER_PYTHON, else Debian's interpreter: one with selenium.
std::string BrowserPython();

/// Returns why a driver ended with kNoBrowser: its last line.
std::string WhyNoBrowser(const std::string& output);

/// Copies a folder's pictures to $MT_KEEP_PICTURES, if that is set.
void KeepPictures(const std::string& folder);

}  // namespace mtrun::support
