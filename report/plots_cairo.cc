#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/posix.h"
#include "report/plots.h"
#ifdef MT_CAIRO
#include <cairo.h>
#endif

namespace mtrun::report {

#ifdef MT_CAIRO
namespace {

constexpr double kWidth = 640, kHeight = 440;
constexpr double kLeft = 72, kRight = 20, kTop = 44, kBottom = 56;

struct Colour {
  double red, green, blue;
};
constexpr Colour kInk = {0.12, 0.16, 0.2}, kGrid = {0.87, 0.89, 0.91};
constexpr Colour kLines[] = {{0.12, 0.47, 0.85}, {0.88, 0.45, 0.13}, {0.17, 0.63, 0.42}, {0.7, 0.36, 0.82}};

class Painter {
 public:
  Painter(cairo_t* cairo, const Panel& panel, double left) : cairo_(cairo), panel_(panel), left_(left) {
    double low_x = panel.lines[0].points[0].first, high_x = low_x;
    double low_y = panel.lines[0].points[0].second, high_y = low_y;
    for (const PlotLine& line : panel.lines) {
      for (const auto& [x, y] : line.points) {
        low_x = std::min(low_x, x);
        high_x = std::max(high_x, x);
        low_y = std::min(low_y, y);
        high_y = std::max(high_y, y);
      }
    }
    x_ = Ticks(low_x, high_x, 6);
    y_ = Ticks(low_y, high_y, 6);
    if (high_x > low_x) {
      // Fractions of an epoch have no tick.
      std::erase_if(x_, [&](double x) { return x != std::floor(x) || x < low_x || x > high_x; });
      from_x_ = low_x;
      to_x_ = high_x;
    } else {
      from_x_ = low_x - 1;
      to_x_ = low_x + 1;
      x_ = {low_x};
    }
  }

  void Draw() {
    DrawGrid();
    for (size_t i = 0; i < panel_.lines.size(); ++i) DrawLine(panel_.lines[i], kLines[i % std::size(kLines)]);
    DrawLegend();
    Set(kInk);
    cairo_set_font_size(cairo_, 15);
    Text(panel_.title, left_ + kLeft, kTop - 18, 0);
    cairo_set_font_size(cairo_, 12);
    Text(panel_.x, left_ + (kLeft + kWidth - kRight) / 2, kHeight - 14, 0.5);
    Text(panel_.y, left_ + 12, kTop - 18, 0);
  }

 private:
  void Set(const Colour& c) { cairo_set_source_rgb(cairo_, c.red, c.green, c.blue); }
  double X(double x) const {
    return left_ + kLeft + (x - from_x_) / (to_x_ - from_x_) * (kWidth - kLeft - kRight);
  }
  double Y(double y) const {
    return kHeight - kBottom - (y - y_.front()) / (y_.back() - y_.front()) * (kHeight - kTop - kBottom);
  }
  /// `anchor`: 0 starts the text at x, 1 ends it there.
  void Text(const std::string& text, double x, double y, double anchor) {
    cairo_text_extents_t extents;
    cairo_text_extents(cairo_, text.c_str(), &extents);
    cairo_move_to(cairo_, x - anchor * extents.x_advance, y);
    cairo_show_text(cairo_, text.c_str());
  }

  void DrawGrid() {
    cairo_set_font_size(cairo_, 11);
    cairo_set_line_width(cairo_, 1);
    for (const double y : y_) {
      Set(kGrid);
      cairo_move_to(cairo_, left_ + kLeft, std::round(Y(y)) + 0.5);
      cairo_line_to(cairo_, left_ + kWidth - kRight, std::round(Y(y)) + 0.5);
      cairo_stroke(cairo_);
      Set(kInk);
      Text(absl::StrFormat("%g", y), left_ + kLeft - 8, Y(y) + 4, 1);
    }
    for (const double x : x_) Text(absl::StrFormat("%g", x), X(x), kHeight - kBottom + 18, 0.5);
  }

  void DrawLine(const PlotLine& line, const Colour& colour) {
    Set(colour);
    cairo_set_line_width(cairo_, 2);
    cairo_set_line_join(cairo_, CAIRO_LINE_JOIN_ROUND);
    for (const auto& [x, y] : line.points) cairo_line_to(cairo_, X(x), Y(y));
    cairo_stroke(cairo_);
    for (const auto& [x, y] : line.points) {
      cairo_arc(cairo_, X(x), Y(y), 3, 0, 6.2832);
      cairo_fill(cairo_);
    }
  }

  void DrawLegend() {
    double right = left_ + kWidth - kRight;
    cairo_set_font_size(cairo_, 12);
    for (size_t i = panel_.lines.size(); i-- > 0;) {
      cairo_text_extents_t extents;
      cairo_text_extents(cairo_, panel_.lines[i].name.c_str(), &extents);
      Set(kInk);
      Text(panel_.lines[i].name, right, kTop - 18, 1);
      Set(kLines[i % std::size(kLines)]);
      cairo_rectangle(cairo_, right - extents.x_advance - 22, kTop - 24, 16, 3);
      cairo_fill(cairo_);
      right -= extents.x_advance + 36;
    }
  }

  cairo_t* const cairo_;
  const Panel& panel_;
  const double left_;
  std::vector<double> x_, y_;
  double from_x_ = 0, to_x_ = 1;
};

cairo_status_t Append(void* out, const unsigned char* bytes, unsigned int size) {
  static_cast<std::string*>(out)->append(reinterpret_cast<const char*>(bytes), size);
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

absl::Status WritePlot(const std::vector<Panel>& panels, const std::string& path) {
  const int width = static_cast<int>(kWidth) * static_cast<int>(panels.size());
  const std::unique_ptr<cairo_surface_t, decltype(&cairo_surface_destroy)> surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, static_cast<int>(kHeight)),
      cairo_surface_destroy);
  const std::unique_ptr<cairo_t, decltype(&cairo_destroy)> cairo(cairo_create(surface.get()), cairo_destroy);
  cairo_set_source_rgb(cairo.get(), 1, 1, 1);
  cairo_paint(cairo.get());
  cairo_select_font_face(cairo.get(), "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  for (size_t i = 0; i < panels.size(); ++i)
    Painter(cairo.get(), panels[i], kWidth * static_cast<double>(i)).Draw();
  std::string png;
  const cairo_status_t status = cairo_surface_write_to_png_stream(surface.get(), Append, &png);
  if (status != CAIRO_STATUS_SUCCESS)
    return absl::InternalError(absl::StrCat("draw ", path, ": ", cairo_status_to_string(status)));
  return WriteFileAtomically(path, png);
}
#else
absl::Status WritePlot(const std::vector<Panel>&, const std::string&) {
  return absl::UnimplementedError("this mtreport was built without Cairo, so it writes no plots");
}
#endif

}  // namespace mtrun::report
