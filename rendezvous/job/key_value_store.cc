#include "rendezvous/job/key_value_store.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace mtrun::rendezvous {
namespace {

std::string ShownKey(const std::string& key) {
  return absl::StrCat("\"", absl::CHexEscape(key.substr(0, 80)), "\"");
}

}  // namespace

std::string KeyValueStore::RefusalOf(const std::string& key, const std::string& value) const {
  if (key.empty() || key.size() > kMaxKeyBytes) {
    return absl::StrCat("store key of ", key.size(), " bytes: 1 to ", kMaxKeyBytes, " are allowed");
  }
  if (value.size() > kMaxValueBytes) {
    return absl::StrCat("store value of ", ShownKey(key), " has ", value.size(), " bytes, at most ",
                        kMaxValueBytes, " are allowed");
  }
  const auto old = values_.find(key);
  const size_t replaced = old == values_.end() ? 0 : old->first.size() + old->second.size();
  if (total_bytes_ - replaced + key.size() + value.size() > kMaxTotalBytes) {
    return absl::StrCat("store is full (", kMaxTotalBytes, " bytes): ", ShownKey(key), " was not kept");
  }
  if (old == values_.end() && values_.size() >= kMaxEntries) {
    return absl::StrCat("store is full (", kMaxEntries, " keys): ", ShownKey(key), " was not kept");
  }
  return "";
}

std::vector<KeyValueStore::Answer> KeyValueStore::Set(const std::string& key, const std::string& value) {
  std::string refusal = RefusalOf(key, value);
  const bool refused = !refusal.empty();
  if (refused) {
    if (key.size() <= kMaxKeyBytes && refused_.size() < kMaxEntries) {
      refused_.insert_or_assign(key, std::move(refusal));
    } else if (full_.empty()) {
      full_ = std::move(refusal);
    }
  } else {
    if (const auto old = values_.find(key); old != values_.end())
      total_bytes_ -= old->first.size() + old->second.size();
    total_bytes_ += key.size() + value.size();
    values_.insert_or_assign(key, value);
    refused_.erase(key);
  }
  for (Waiter& waiter : waiters_) {
    while (waiter.found < waiter.keys.size() && values_.contains(waiter.keys[waiter.found])) ++waiter.found;
  }
  std::vector<Answer> answers;
  std::erase_if(waiters_, [&](const Waiter& waiter) {
    if (!refused && waiter.found < waiter.keys.size()) return false;
    Answer answer;
    if (!Complete(waiter, answer)) return false;
    answers.push_back(std::move(answer));
    return true;
  });
  return answers;
}

bool KeyValueStore::Complete(const Waiter& waiter, Answer& answer) const {
  answer = Answer{waiter.node_id, waiter.id, {}, ""};
  bool complete = true;
  for (const std::string& key : waiter.keys) {
    if (const auto value = values_.find(key); value != values_.end()) {
      answer.values.insert(*value);
      continue;
    }
    complete = false;
    const auto refused = refused_.find(key);
    if (refused != refused_.end()) answer.error = refused->second;
  }
  if (!complete && answer.error.empty()) answer.error = full_;
  return complete || !answer.error.empty();
}

std::vector<KeyValueStore::Answer> KeyValueStore::Read(const std::string& node_id, int64_t id,
                                                       const std::vector<std::string>& keys, bool wait) {
  const bool pending = std::any_of(waiters_.begin(), waiters_.end(),
                                   [&](const Waiter& w) { return w.node_id == node_id && w.id == id; });
  if (pending) return {};
  if (keys.size() > kMaxKeysPerRead) {
    return {
        Answer{node_id,
               id,
               {},
               absl::StrCat("store read of ", keys.size(), " keys: at most ", kMaxKeysPerRead, " at once")}};
  }
  Waiter waiter{node_id, id, keys};
  Answer answer;
  if (Complete(waiter, answer)) return {std::move(answer)};
  if (!wait) {
    const auto missing = std::find_if(keys.begin(), keys.end(),
                                      [&](const std::string& key) { return !values_.contains(key); });
    answer.error = absl::StrCat("store has no key ", ShownKey(*missing));
    return {std::move(answer)};
  }
  if (waiters_.size() >= kMaxWaiters) {
    return {Answer{node_id, id, {}, absl::StrCat("store has ", kMaxWaiters, " waiting readers already")}};
  }
  waiters_.push_back(std::move(waiter));
  return {};
}

void KeyValueStore::DropNode(const std::string& node_id) {
  std::erase_if(waiters_, [&](const Waiter& waiter) { return waiter.node_id == node_id; });
}

std::vector<KeyValueStore::Answer> KeyValueStore::Close(const std::string& error) {
  std::vector<Answer> answers;
  for (const Waiter& waiter : waiters_) answers.push_back(Answer{waiter.node_id, waiter.id, {}, error});
  *this = KeyValueStore();
  return answers;
}

}  // namespace mtrun::rendezvous
