#include "base/unauthenticated_connections.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mtrun {
namespace {

constexpr char kLoopback[] = "loopback";

std::string PlaceOfFour(const unsigned char* bytes, const std::string& text) {
  return bytes[0] == 127 ? kLoopback : text;
}

std::string PlaceOfSix(in6_addr six) {
  char text[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_V4MAPPED(&six)) {
    inet_ntop(AF_INET, six.s6_addr + 12, text, sizeof text);
    return PlaceOfFour(six.s6_addr + 12, text);
  }
  if (IN6_IS_ADDR_LOOPBACK(&six)) return kLoopback;
  std::fill(six.s6_addr + 8, six.s6_addr + 16, 0);
  inet_ntop(AF_INET6, six.s6_addr, text, sizeof text);
  return absl::StrCat(text, "/64");
}

}  // namespace

std::string PlaceOfAddress(const std::string& address) {
  const std::string plain = address.substr(0, address.find('%'));  // without the zone of a link
  in6_addr six = {};
  if (inet_pton(AF_INET6, plain.c_str(), &six) == 1) return PlaceOfSix(six);
  in_addr four = {};
  if (inet_pton(AF_INET, plain.c_str(), &four) != 1) return address;
  return PlaceOfFour(reinterpret_cast<const unsigned char*>(&four), plain);
}

void UnauthenticatedConnections::Add(uint64_t id, const std::string& address) {
  Member member{PlaceOfAddress(address), address, ++last_age_};
  Place& place = places_[member.place];
  ++place.size;
  place.addresses[address].emplace(member.age, id);
  members_.emplace(id, std::move(member));
}

void UnauthenticatedConnections::Remove(uint64_t id) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  const auto place = places_.find(found->second.place);
  const auto address = place->second.addresses.find(found->second.address);
  address->second.erase(found->second.age);
  if (address->second.empty()) place->second.addresses.erase(address);
  if (--place->second.size == 0) places_.erase(place);
  members_.erase(found);
}

void UnauthenticatedConnections::Renew(uint64_t id) {
  Member& member = members_.at(id);
  Ids& ids = places_.at(member.place).addresses.at(member.address);
  ids.erase(member.age);
  member.age = ++last_age_;
  ids.emplace(member.age, id);
}

uint64_t UnauthenticatedConnections::OldestOf(const Place& place) {
  uint64_t oldest = UINT64_MAX;
  for (const auto& [address, ids] : place.addresses) oldest = std::min(oldest, ids.begin()->first);
  return oldest;
}

uint64_t UnauthenticatedConnections::First() const {
  const Place* most = nullptr;
  for (const auto& [name, place] : places_) {
    if (most == nullptr || place.size > most->size ||
        (place.size == most->size && OldestOf(place) < OldestOf(*most)))
      most = &place;
  }
  const Ids* of = nullptr;
  for (const auto& [address, ids] : most->addresses) {
    if (of == nullptr || ids.size() > of->size() ||
        (ids.size() == of->size() && ids.begin()->first < of->begin()->first))
      of = &ids;
  }
  return of->begin()->second;
}

}  // namespace mtrun
