#include "rendezvous/authority/natural_order.h"

#include <cstddef>

namespace mtrun::rendezvous {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Returns the run of digits at `at` without its leading zeros, and moves `at` past it.
std::string_view TakeNumber(std::string_view text, size_t& at) {
  while (at < text.size() && text[at] == '0') ++at;
  const size_t begin = at;
  while (at < text.size() && IsDigit(text[at])) ++at;
  return text.substr(begin, at - begin);
}

}  // namespace

bool NaturalLess(std::string_view a, std::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (IsDigit(a[i]) && IsDigit(b[j])) {
      const std::string_view left = TakeNumber(a, i), right = TakeNumber(b, j);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
    }
  }
  if (i < a.size() || j < b.size()) return i == a.size();
  return a < b;
}

}  // namespace mtrun::rendezvous
