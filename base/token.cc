#include "base/token.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/posix.h"
#include "base/status_macros.h"
#include "base/value_or.h"

namespace mtrun {
namespace {

constexpr char kMark[] = "mtrun1-";
constexpr size_t kDigits = 64;          // 256 bits
constexpr size_t kWeakCharacters = 32;  // 128 bits, if they are random hexadecimal digits
constexpr Duration kWriterPatience = std::chrono::seconds(2);

/// Returns whether other users may read the file. A Secret in a pod's volume belongs to root and, if the pod
/// has an fsGroup, also to that group (mode 0440, whatever its manifest says): root has chosen those readers.
bool OthersMayRead(const struct stat& status) {
  const mode_t refused = status.st_uid == 0 ? 037 : 077;
  return (status.st_mode & refused) != 0;
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    const int error = errno;
    const absl::Status why = ErrnoStatus(error, absl::StrCat("token file ", path));
    return error == ENOENT ? why : absl::UnavailableError(why.message());
  }
  if (OthersMayRead(status)) {
    return absl::PermissionDeniedError(
        absl::StrFormat("token file %s can be read by other users (mode %03o): run `chmod 600 %s`", path,
                        status.st_mode & 0777, path));
  }
  MT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return std::string(absl::StripAsciiWhitespace(text));
}

/// Creates the file in place, for file systems without hard links (vfat, and several in user space); the
/// first process wins. Others can see the file before its text is written.
absl::Status WriteInPlace(const std::string& path, const std::string& text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid() && errno == EEXIST) return absl::OkStatus();
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("create token file ", path));
  absl::Status written = WriteAll(fd.get(), text);
  if (written.ok() && fsync(fd.get()) != 0) written = ErrnoStatus(errno, absl::StrCat("fsync ", path));
  if (!written.ok()) unlink(path.c_str());
  return written;
}

/// Reads the token file, and waits if another process is still writing it.
absl::StatusOr<std::string> AwaitToken(const std::string& path) {
  const TimePoint deadline = MonotonicNow() + kWriterPatience;
  while (true) {
    absl::StatusOr<std::string> token = ReadToken(path);
    if (!token.ok() || !token->empty()) return token;
    if (MonotonicNow() >= deadline) {
      return absl::InvalidArgumentError(
          absl::StrCat("token file ", path, " is empty: remove it, and a new token is created"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Writes a temporary file and links it into place. If several agents start at once on a shared home, one
/// wins and the others read its token.
absl::StatusOr<std::string> MakeTokenFile(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  MT_RETURN_IF_ERROR(MakeFolders(folder));
  if (chmod(folder.c_str(), 0700) != 0) return ErrnoStatus(errno, absl::StrCat("chmod ", folder));
  const std::string token = MakeToken();
  const std::string draft = absl::StrFormat("%s.%016x", path, RandomBits());
  const UniqueFd fd(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("create token file ", draft));
  absl::Status written = WriteAll(fd.get(), token + "\n");
  // A power cut must not leave an empty file, which no agent can use.
  if (written.ok() && fsync(fd.get()) != 0) written = ErrnoStatus(errno, absl::StrCat("fsync ", draft));
  if (written.ok() && link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST)
    written = WriteInPlace(path, token + "\n");
  unlink(draft.c_str());
  MT_RETURN_IF_ERROR(written);
  log::Info("the cluster's token is in ", path,
            " (nodes without a shared home need a copy of it, or MTRUN_TOKEN)");
  return AwaitToken(path);
}

absl::Status NoToken(const std::string& why) {
  return absl::NotFoundError(
      absl::StrCat("no token: ", why,
                   "; set MTRUN_TOKEN or give --token_file FILE, the same on every node "
                   "(`mtrun --new_token` creates one)"));
}

bool IsSet(const EnvironmentMap& environment, const char* name) {
  return !ValueOr(environment, name).empty();
}

/// Kubernetes sets this variable in every container.
bool IsInPod(const EnvironmentMap& environment) { return IsSet(environment, "KUBERNETES_SERVICE_HOST"); }

/// Kubeflow's operator sets torchrun's variables in the containers of a PyTorchJob.
bool IsKubeflows(const EnvironmentMap& environment) {
  return IsSet(environment, "PET_NNODES") || IsSet(environment, "PET_MASTER_ADDR") ||
         IsSet(environment, "PET_RDZV_ENDPOINT") || IsSet(environment, "MASTER_ADDR");
}

/// Returns the error with the missing lines of the manifest, ready to be copied.
absl::Status NoTokenInPod(const std::string& path, const EnvironmentMap& environment) {
  return absl::NotFoundError(absl::StrCat(
      "no token: there is no ", path,
      ", and a token created by this pod would be unknown to the others. Create a Secret in the job's "
      "namespace, once:\n"
      "  kubectl create secret generic mtrun-token --from-literal=token=\"$(mtrun --new_token)\"\n"
      "and add three lines to the manifest, ",
      IsKubeflows(environment)
          ? "in each of spec.pytorchReplicaSpecs (Master, Worker) to the container pytorch"
          : "to the container of every pod of the job",
      ":\n"
      "  env:\n"
      "  - name: ",
      kTokenVariable,
      "\n"
      "    valueFrom: {secretKeyRef: {name: mtrun-token, key: token}}"));
}

absl::StatusOr<std::string> LoadDefault(const std::string& path, MissingToken missing,
                                        const EnvironmentMap& environment) {
  absl::StatusOr<std::string> token = AwaitToken(path);
  if (absl::IsNotFound(token.status())) {
    if (missing == MissingToken::kRefuse) return NoToken(absl::StrCat("there is no ", path));
    if (missing == MissingToken::kMakeForNodes && IsInPod(environment))
      return NoTokenInPod(path, environment);
    token = MakeTokenFile(path);
    // The home is not writable, as in containers for users other than root.
    if (!token.ok()) return NoToken(std::string(token.status().message()));
  }
  const bool has_file =
      token.ok() || absl::IsPermissionDenied(token.status()) || absl::IsInvalidArgument(token.status());
  return has_file ? token : NoToken(std::string(token.status().message()));
}

}  // namespace

std::string DefaultTokenPath(const EnvironmentMap& environment) {
  if (const std::string home = ValueOr(environment, "HOME"); !home.empty()) return home + "/.mtrun/token";
  const passwd* user = getpwuid(getuid());
  return absl::StrCat(user != nullptr ? user->pw_dir : "/root", "/.mtrun/token");
}

std::string MakeToken() {
  std::string token = kMark;
  for (int i = 0; i < 4; ++i) absl::StrAppendFormat(&token, "%016x", RandomBits());
  return token;
}

absl::Status CheckToken(std::string_view token, bool weak) {
  const std::string_view mark = kMark;
  const bool made = token.size() == mark.size() + kDigits && token.substr(0, mark.size()) == mark &&
                    token.find_first_not_of("0123456789abcdef", mark.size()) == std::string_view::npos;
  if (made || (weak && token.size() >= kWeakCharacters)) return absl::OkStatus();
  if (weak) {
    return absl::InvalidArgumentError(absl::StrCat("the token has ", token.size(), " characters; at least ",
                                                   kWeakCharacters, " are needed"));
  }
  return absl::InvalidArgumentError(
      "this token was not created by mtrun and may be easy to guess: create one with `mtrun "
      "--new_token` (or accept it with --rdzv_conf weak_token=1, or mtrdzv --weak_token)");
}

absl::StatusOr<std::string> LoadToken(const TokenSource& source, MissingToken missing,
                                      const EnvironmentMap& environment) {
  if (const std::string given = ValueOr(environment, kTokenVariable); source.file.empty() && !given.empty()) {
    std::string token(absl::StripAsciiWhitespace(given));
    MT_RETURN_IF_ERROR(Annotate(CheckToken(token, source.weak), kTokenVariable));
    return token;
  }
  const std::string file = source.file.empty() ? DefaultTokenPath(environment) : source.file;
  absl::StatusOr<std::string> token =
      source.file.empty() ? LoadDefault(file, missing, environment) : ReadToken(file);
  MT_RETURN_IF_ERROR(token.status());
  MT_RETURN_IF_ERROR(Annotate(CheckToken(*token, source.weak), absl::StrCat("token file ", file)));
  return token;
}

}  // namespace mtrun
