#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/endpoint.h"
#include "base/link_zone.h"
#include "base/status_macros.h"
#include "base/value_or.h"
#include "launcher/cli/options_reading.h"

namespace mtrun::launcher {

/// Parses --redirects and --tee: "3", or "0:1,12:2" per local rank.
absl::Status ReadStreams(const Settings& settings, const std::string& name, std::map<int, int>* streams) {
  const std::string text = settings.Text(name);
  if (text.empty()) return absl::OkStatus();
  const absl::Status wrong = NotAllowed(settings, name, "0, 1, 2 or 3, or LOCAL_RANK:N,...");
  for (absl::string_view item : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(item, ':');
    int rank = -1, what = 0;
    if (parts.size() > 2 || !absl::SimpleAtoi(parts.back(), &what) || what < 0 || what > 3) return wrong;
    if (parts.size() == 2 && (!absl::SimpleAtoi(parts.front(), &rank) || rank < 0)) return wrong;
    if (parts.size() == 1 && text.find(',') != std::string::npos) return wrong;
    (*streams)[rank] = what;
  }
  return absl::OkStatus();
}

absl::Status ReadLocalRanks(const Settings& settings, const std::string& name, std::set<int>* ranks) {
  for (absl::string_view item : absl::StrSplit(settings.Text(name), ',', absl::SkipWhitespace())) {
    int rank = 0;
    if (!absl::SimpleAtoi(item, &rank) || rank < 0) return NotAllowed(settings, name, "local ranks: 0,1,...");
    ranks->insert(rank);
  }
  return absl::OkStatus();
}

std::vector<std::string> SplitTexts(const std::string& text) {
  std::vector<std::string> texts(1);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      texts.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      texts.back() += text[i++];
    } else {
      texts.emplace_back();
    }
  }
  std::erase_if(texts, [](const std::string& text_) { return text_.empty(); });
  return texts;
}

absl::Status ReadPage(const OptionContext& context, Options* options) {
  const std::string text = context.settings.Text(context.name);
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<Endpoint> place = ParseLocalEndpoint(text, kDefaultPagePort);
  if (!place.ok()) return NotAllowed(context.settings, context.name, "HOST:PORT, HOST (port 8080) or PORT");
  MT_RETURN_IF_ERROR(Annotate(CheckZone(*place), Named(context.settings, context.name)));
  options->http = ToText(*place);
  return absl::OkStatus();
}

absl::Status ReadPrefix(const OptionContext& context, Options* options) {
  const std::string variable = ValueOr(context.environment, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  const bool is_set = context.settings.IsSet(context.name);
  options->prefix_given = is_set || !variable.empty();
  if (options->prefix_given)
    options->prefix_template = is_set ? context.settings.Text(context.name) : variable;
  return absl::OkStatus();
}

std::string Options::ConsolePrefix() const {
  if (console_format == "plain") return "";
  if (prefix_given || role.empty() || !absl::ascii_isdigit(role.back())) return prefix_template;
  return "[${role_name} ${local_rank}]:";  // "[resnet18 0]:"
}

bool Options::RawConsole() const {
  if (!entry.trainer.empty()) return false;  // by line: a progress line may stay
  if (!console_format.empty()) return console_format == "plain" && workers == 1;
  return workers == 1 && tee.empty() && !prefix_given;
}

OutputPlan Options::OutputOf(int local_rank) const {
  const auto mask = [&](const std::map<int, int>& streams) {
    if (const auto own = streams.find(local_rank); own != streams.end()) return own->second;
    const auto all = streams.find(-1);
    return all == streams.end() ? 0 : all->second;
  };
  const int file_only = mask(redirects) & ~mask(tee);
  const bool shown = console_ranks.empty() || console_ranks.contains(local_rank);
  return {.out = shown && (file_only & 1) == 0, .err = shown && (file_only & 2) == 0};
}

}  // namespace mtrun::launcher
