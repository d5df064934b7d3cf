// A visitor made of lambdas, one for each alternative of a variant.
#pragma once

namespace mtrun::rendezvous {

template <typename... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

}  // namespace mtrun::rendezvous
