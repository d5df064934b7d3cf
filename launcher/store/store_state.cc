#include "launcher/store/store_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/value_or.h"

namespace mtrun::launcher {
namespace {

constexpr char kStopWaiting = 0, kWaitCancelled = 1;  // for WAIT, CANCEL_WAIT, BARRIER
constexpr char kReady = 0, kNotReady = 1;             // for CHECK

template <typename Number>
std::string Raw(Number number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string Vector(const std::string& value) { return Raw(uint64_t{value.size()}) + value; }

/// Includes the overhead of an entry, so that empty texts count too.
size_t SizeOf(const std::string& key, const std::string& value) { return 64 + key.size() + value.size(); }

/// Returns the cost of waiting for a key: its text is stored twice, plus the overhead of lists and map.
size_t SizeOfWait(const std::string& key) { return 256 + 2 * key.size(); }

}  // namespace

absl::StatusOr<std::vector<StoreAnswer>> StoreState::Apply(int64_t client, StoreRequest request) {
  Answers answers;
  switch (request.command) {
    case StoreCommand::kValidate:
      break;
    case StoreCommand::kSet:
      MT_RETURN_IF_ERROR(Set(request, &answers));
      break;
    case StoreCommand::kCompareSet:
      MT_RETURN_IF_ERROR(CompareSet(client, request, &answers));
      break;
    case StoreCommand::kAdd:
      MT_RETURN_IF_ERROR(Add(client, request, &answers));
      break;
    case StoreCommand::kWait:
      MT_RETURN_IF_ERROR(Wait(client, request, &answers));
      break;
    case StoreCommand::kDelete:
      answers.push_back({client, Raw(int64_t{Delete(request.keys[0]) ? 1 : 0})});
      break;
    case StoreCommand::kAppend:
      MT_RETURN_IF_ERROR(AppendTo(request, &answers));
      break;
    case StoreCommand::kMultiSet:
      MT_RETURN_IF_ERROR(MultiSet(request, &answers));
      break;
    case StoreCommand::kCancelWait:
      Forget(client);
      answers.push_back({client, std::string(1, kWaitCancelled)});
      break;
    case StoreCommand::kQueuePush:
      MT_RETURN_IF_ERROR(Push(request, &answers));
      break;
    case StoreCommand::kQueuePop:
      MT_RETURN_IF_ERROR(Pop(client, request.keys[0], &answers));
      break;
    case StoreCommand::kBarrier:
      MT_RETURN_IF_ERROR(Meet(client, request, &answers));
      break;
    default:
      MT_ASSIGN_OR_RETURN(std::string answer, Read(request));
      answers.push_back({client, std::move(answer)});
  }
  return answers;
}

absl::StatusOr<std::string> StoreState::Read(const StoreRequest& request) const {
  switch (request.command) {
    case StoreCommand::kGet:
      return Answered(ValueOr(values_, request.keys[0]));
    case StoreCommand::kMultiGet:
      return MultiGet(request);
    case StoreCommand::kCheck: {
      const bool all =
          std::all_of(request.keys.begin(), request.keys.end(), [&](const auto& key) { return Has(key); });
      return std::string(1, all ? kReady : kNotReady);
    }
    case StoreCommand::kNumKeys:
      return Raw(static_cast<int64_t>(values_.size()));
    case StoreCommand::kListKeys:
      return ListKeys();
    case StoreCommand::kQueueLength: {
      const auto found = queues_.find(request.keys[0]);
      return Raw(static_cast<int64_t>(found == queues_.end() ? 0 : found->second.size()));
    }
    case StoreCommand::kPing:
      return Raw(static_cast<uint32_t>(request.number));
    default:
      return absl::InternalError("not a request that only reads");
  }
}

absl::Status StoreState::Room(size_t more) const {
  if (bytes_ + more <= limits_.most_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the store is full: ", bytes_, " bytes of ",
                                                   limits_.most_bytes, ", and ", more, " more do not fit"));
}

bool StoreState::Has(const std::string& key) const { return values_.contains(key) || queues_.contains(key); }

void StoreState::Put(const std::string& key, std::string value, Answers* answers) {
  const auto [found, fresh] = values_.try_emplace(key);
  if (!fresh) bytes_ -= SizeOf(key, found->second);
  bytes_ += SizeOf(key, value);
  found->second = std::move(value);
  Wake(key, /*one=*/false, answers);
}

void StoreState::Wake(const std::string& key, bool one, Answers* answers) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  std::vector<int64_t>& waiters = found->second;
  auto next = waiters.begin();
  while (next != waiters.end()) {
    const int64_t client = *next++;
    const auto waits = wanted_.find(client);
    if (--waits->second.missing > 0) continue;
    wanted_.erase(waits);
    answers->push_back({client, std::string(1, kStopWaiting)});
    if (one) break;
  }
  waiters.erase(waiters.begin(), next);
  if (waiters.empty()) waiters_.erase(found);
}

void StoreState::Forget(int64_t client) {
  if (const auto found = wanted_.find(client); found != wanted_.end()) {
    for (const std::string& key : found->second.keys) {
      const auto waiters = waiters_.find(key);
      if (waiters == waiters_.end()) continue;  // it exists now
      std::erase(waiters->second, client);
      if (waiters->second.empty()) waiters_.erase(waiters);
    }
    wanted_.erase(found);
  }
  if (const auto found = at_barrier_.find(client); found != at_barrier_.end()) {
    const auto barrier = barriers_.find(found->second);
    std::erase(barrier->second.clients, client);
    if (barrier->second.clients.empty()) barriers_.erase(barrier);
    at_barrier_.erase(found);
  }
}

absl::Status StoreState::Set(StoreRequest& request, Answers* answers) {
  MT_RETURN_IF_ERROR(Room(SizeOf(request.keys[0], request.values[0])));
  Put(request.keys[0], std::move(request.values[0]), answers);
  return absl::OkStatus();
}

bool StoreState::Delete(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= SizeOf(found->first, found->second);
  values_.erase(found);
  return true;
}

absl::Status StoreState::CompareSet(int64_t client, StoreRequest& request, Answers* answers) {
  const std::string& key = request.keys[0];
  std::string &expected = request.values[0], &wanted = request.values[1];
  const auto found = values_.find(key);
  if (found == values_.end() && !expected.empty()) {  // PyTorch answers with the expected value
    MT_ASSIGN_OR_RETURN(std::string answer, Answered(expected));
    answers->push_back({client, std::move(answer)});
    return absl::OkStatus();
  }
  if (found != values_.end() && found->second != expected) {
    MT_ASSIGN_OR_RETURN(std::string answer, Answered(found->second));
    answers->push_back({client, std::move(answer)});
    return absl::OkStatus();
  }
  MT_RETURN_IF_ERROR(Room(SizeOf(key, wanted)));
  MT_ASSIGN_OR_RETURN(std::string answer, Answered(wanted));
  answers->push_back({client, std::move(answer)});
  Put(key, std::move(wanted), answers);
  return absl::OkStatus();
}

absl::Status StoreState::Add(int64_t client, const StoreRequest& request, Answers* answers) {
  const std::string& key = request.keys[0];
  int64_t sum = request.number;
  if (const auto found = values_.find(key); found != values_.end()) {
    int64_t old = 0;
    if (!absl::SimpleAtoi(found->second, &old) || __builtin_add_overflow(old, request.number, &sum))
      return absl::InvalidArgumentError(absl::StrCat("add to a value that is not a number, or too large, of ",
                                                     found->second.size(), " bytes"));
  }
  const std::string text = absl::StrCat(sum);
  MT_RETURN_IF_ERROR(Room(SizeOf(key, text)));
  answers->push_back({client, Raw(sum)});
  Put(key, text, answers);
  return absl::OkStatus();
}

absl::Status StoreState::AppendTo(const StoreRequest& request, Answers* answers) {
  const std::string &key = request.keys[0], &more = request.values[0];
  MT_RETURN_IF_ERROR(Room(SizeOf(key, more)));
  const auto old = values_.find(key);
  if (old != values_.end() && old->second.size() + more.size() > StoreParser::kMaxValueBytes)
    return absl::ResourceExhaustedError(
        absl::StrCat("append to a value that would have more than ", StoreParser::kMaxValueBytes, " bytes"));
  const auto [found, fresh] = values_.try_emplace(key);
  bytes_ += fresh ? SizeOf(key, more) : more.size();
  found->second += more;
  Wake(key, /*one=*/false, answers);
  return absl::OkStatus();
}

absl::Status StoreState::Wait(int64_t client, StoreRequest& request, Answers* answers) {
  if (wanted_.contains(client) || at_barrier_.contains(client))
    return absl::InvalidArgumentError("a client that is waiting cannot wait again");
  Wanted wanted{.keys = std::move(request.keys)};
  std::erase_if(wanted.keys, [&](const std::string& key) { return Has(key); });
  std::sort(wanted.keys.begin(), wanted.keys.end());
  wanted.keys.erase(std::unique(wanted.keys.begin(), wanted.keys.end()), wanted.keys.end());
  if (wanted.keys.empty()) {
    answers->push_back({client, std::string(1, kStopWaiting)});
    return absl::OkStatus();
  }
  for (const std::string& key : wanted.keys) {
    waiters_[key].push_back(client);
    wanted.bytes += SizeOfWait(key);
  }
  wanted.missing = wanted.keys.size();
  wanted_.emplace(client, std::move(wanted));
  return absl::OkStatus();
}

size_t StoreState::bytes_waiting(int64_t client) const {
  if (const auto found = wanted_.find(client); found != wanted_.end()) return found->second.bytes;
  const auto found = at_barrier_.find(client);
  return found == at_barrier_.end() ? 0 : SizeOfWait(found->second);
}

absl::StatusOr<std::string> StoreState::MultiGet(const StoreRequest& request) const {
  std::string all;
  for (const std::string& key : request.keys) {
    all += Vector(ValueOr(values_, key));
    if (all.size() > limits_.most_answer_bytes) return TooLongAnAnswer();
  }
  return all;
}

absl::StatusOr<std::string> StoreState::ListKeys() const {
  std::string list = Raw(static_cast<int64_t>(values_.size()));
  for (const auto& [key, value] : values_) {
    list += Vector(key);
    if (list.size() > limits_.most_answer_bytes) return TooLongAnAnswer();
  }
  return list;
}

absl::StatusOr<std::string> StoreState::Answered(const std::string& value) const {
  if (value.size() > limits_.most_answer_bytes) return TooLongAnAnswer();
  return Vector(value);
}

absl::Status StoreState::TooLongAnAnswer() const {
  return absl::ResourceExhaustedError(
      absl::StrCat("one request asks for more than ", limits_.most_answer_bytes, " bytes"));
}

absl::Status StoreState::MultiSet(StoreRequest& request, Answers* answers) {
  size_t more = 0;
  for (size_t i = 0; i < request.keys.size(); ++i) more += SizeOf(request.keys[i], request.values[i]);
  MT_RETURN_IF_ERROR(Room(more));
  for (size_t i = 0; i < request.keys.size(); ++i)
    Put(request.keys[i], std::move(request.values[i]), answers);
  return absl::OkStatus();
}

absl::Status StoreState::Push(StoreRequest& request, Answers* answers) {
  const std::string& key = request.keys[0];
  const size_t size = SizeOf(key, request.values[0]);
  MT_RETURN_IF_ERROR(Room(size));
  bytes_ += size;
  queues_[key].push_back(std::move(request.values[0]));
  Wake(key, /*one=*/true, answers);
  return absl::OkStatus();
}

absl::Status StoreState::Pop(int64_t client, const std::string& key, Answers* answers) {
  const auto found = queues_.find(key);
  if (found == queues_.end()) {
    answers->push_back({client, Raw(int64_t{0})});
    return absl::OkStatus();
  }
  std::deque<std::string>& queue = found->second;
  MT_ASSIGN_OR_RETURN(const std::string first, Answered(queue.front()));
  answers->push_back({client, Raw(static_cast<int64_t>(queue.size())) + first});
  bytes_ -= SizeOf(key, queue.front());
  queue.pop_front();
  if (queue.empty()) queues_.erase(found);
  return absl::OkStatus();
}

absl::Status StoreState::Meet(int64_t client, const StoreRequest& request, Answers* answers) {
  if (wanted_.contains(client) || at_barrier_.contains(client))
    return absl::InvalidArgumentError("a client that is waiting cannot wait again");
  const std::string& key = request.keys[0];
  Barrier& barrier = barriers_[key];
  barrier.members = request.number;
  barrier.clients.push_back(client);
  at_barrier_.emplace(client, key);
  if (static_cast<int64_t>(barrier.clients.size()) < barrier.members) return absl::OkStatus();
  for (const int64_t member : barrier.clients) {
    answers->push_back({member, std::string(1, kStopWaiting)});
    at_barrier_.erase(member);
  }
  barriers_.erase(key);
  return absl::OkStatus();
}

void StoreState::CheckInvariants() const {
  size_t bytes = 0, waits = 0, waiters = 0, met = 0;
  for (const auto& [key, value] : values_) bytes += SizeOf(key, value);
  for (const auto& [key, queue] : queues_) {
    MT_CHECK(!queue.empty()) << "an empty queue is kept";
    for (const std::string& value : queue) bytes += SizeOf(key, value);
  }
  MT_CHECK(bytes == bytes_ && bytes <= limits_.most_bytes) << bytes << " bytes, counted " << bytes_;
  for (const auto& [client, wanted] : wanted_) {
    size_t missing = 0, size = 0;
    for (const std::string& key : wanted.keys) {
      size += SizeOfWait(key);
      const auto list = waiters_.find(key);
      if (list == waiters_.end()) continue;
      const auto listed = std::count(list->second.begin(), list->second.end(), client);
      MT_CHECK(listed <= 1) << client << " is listed more than once";
      missing += static_cast<size_t>(listed);
    }
    MT_CHECK(missing > 0 && missing == wanted.missing) << missing << " missing, counted " << wanted.missing;
    MT_CHECK(size == wanted.bytes) << size << " bytes waited with, counted " << wanted.bytes;
    waits += missing;
  }
  for (const auto& [key, list] : waiters_) {
    MT_CHECK(!list.empty() && !values_.contains(key)) << "no client waits for the key, or it has a value";
    waiters += list.size();
  }
  MT_CHECK(waits == waiters) << waits << " waits, " << waiters << " waiters";
  for (const auto& [key, barrier] : barriers_) met += barrier.clients.size();
  MT_CHECK(met == at_barrier_.size()) << met << " at barriers, listed " << at_barrier_.size();
}

}  // namespace mtrun::launcher
