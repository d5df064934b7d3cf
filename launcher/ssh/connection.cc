#include "launcher/ssh/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/child_exit.h"
#include "base/status_macros.h"
#include "launcher/cli/program.h"

namespace mtrun::launcher {

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const std::vector<std::string>& argv,
                                                             const EnvironmentMap& environment) {
  ProcessSpec spec;
  spec.file = FindOnPath(argv.front(), environment);
  if (spec.file.empty())
    return absl::NotFoundError(absl::StrCat("there is no program ", argv.front(), " here"));
  spec.argv = argv;
  spec.environment = environment;
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make a pipe for ssh");
  const UniqueFd read_end(fds[0]);
  UniqueFd write_end(fds[1]);
  spec.input = read_end.get();
  MT_ASSIGN_OR_RETURN(Process process, Process::Start(spec));
  std::unique_ptr<Connection> connection(new Connection(std::move(process), std::move(write_end)));
  for (const UniqueFd* fd : {&connection->input_, &connection->streams_[0], &connection->streams_[1]})
    if (fcntl(fd->get(), F_SETFL, O_NONBLOCK) != 0) return ErrnoStatus(errno, "set up the pipes of ssh");
  return connection;
}

Connection::Connection(Process process, UniqueFd input)
    : process_(std::move(process)),
      exit_(WatchExit(process_.pid())),
      input_(std::move(input)),
      streams_{process_.TakeOutput(), process_.TakeError()} {}

void Connection::AddTo(std::vector<pollfd>* polled) const {
  polled->push_back({unsent_.empty() ? -1 : input_.get(), POLLOUT, 0});
  for (const UniqueFd& stream : streams_) polled->push_back({stream.get(), POLLIN, 0});
  polled->push_back({exit_.get(), POLLIN, 0});
}

void Connection::Send(std::string_view bytes) {
  unsent_ += bytes;
  SendMore();
}

void Connection::SendMore() {
  while (!unsent_.empty()) {
    const ssize_t size = write(input_.get(), unsent_.data(), unsent_.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    // An ssh that accepts no more input is about to exit, which is a separate event.
    unsent_.erase(0, size < 0 ? unsent_.size() : static_cast<size_t>(size));
  }
}

std::string Connection::Take(int which, size_t most) {
  UniqueFd& stream = streams_[which];
  std::string bytes(most, '\0');
  ssize_t size = -1;
  do size = stream.valid() ? read(stream.get(), bytes.data(), bytes.size()) : 0;
  while (size < 0 && errno == EINTR);
  if (size == 0 || (size < 0 && errno != EAGAIN)) stream.Reset();
  bytes.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return bytes;
}

}  // namespace mtrun::launcher
