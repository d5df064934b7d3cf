// Brings measured values of a message within the bounds of its fields, so that the receiver takes it. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/clock.h"
#include "rendezvous/wire/fields.h"

namespace mtrun::rendezvous {

/// Moves each number and duration to its nearest bound and cuts lists of messages to their longest. Texts are
/// cut by the codec.
template <HasFields Message>
void Clamp(Message* message) {
  Message::Fields(
      *message, []<typename T, typename Bound = Unbound>(const char*, T& value, Bound bound = {}) {
        if constexpr (std::is_same_v<Bound, Range> && std::is_same_v<T, Duration>) {
          value = std::clamp(value, Duration(bound.low), Duration(bound.high));
        } else if constexpr (std::is_same_v<Bound, Range>) {
          value = static_cast<T>(std::clamp<int64_t>(value, bound.low, bound.high));
        } else if constexpr (std::is_same_v<Bound, List>) {
          if (value.size() > static_cast<size_t>(bound.count.high))
            value.resize(static_cast<size_t>(bound.count.high));
          for (auto& one : value) {
            if constexpr (HasFields<std::remove_reference_t<decltype(one)>>) Clamp(&one);
          }
        }
      });
}

}  // namespace mtrun::rendezvous
