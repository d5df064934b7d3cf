"""Runs a pod's container on this machine as kubelet does: with its own network, names, mounts, processes and user, and
the manifest's command, environment, volumes, probes and hooks. Everything that needs a cluster is missing: images,
scheduling, control groups, seccomp, a DNS server (names are in the hosts file)."""
import os
import shutil
import signal
import subprocess
import sys
import time

import cluster
import manifests

PATH = "/opt/mtrun/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # the Containerfile's
IMAGE_USER = 1000
# Argument 1 is the root's folder, 2 the pod's, 3 the image's, then PATH SOURCE MODE for each mount up to "--", then the program.
# Debian's /bin and /lib are links into /usr, or folders.
ROOT = """set -e
mount --make-rprivate /
root=$1 pod=$2 image=$3
shift 3
mount -t tmpfs -o mode=755 root "$root"
cd "$root"
mkdir -p usr etc proc dev opt/mtrun work home/mtrun
mkdir -m 1777 tmp
chown 1000:1000 home/mtrun
mount --bind /usr usr
mount -o remount,bind,ro usr
for name in bin sbin lib lib64; do
  if [ -L /$name ]; then cp -P /$name $name; elif [ -d /$name ]; then mkdir $name && mount --bind /$name $name; fi
done
mount -t proc proc proc
mount --rbind /dev dev
mount --bind "$pod/etc" etc
mount --bind "$image/opt/mtrun" opt/mtrun
mount --bind "$image/work" work
while [ "$1" != -- ]; do
  mkdir -p ".$1"
  if [ "$2" = memory ]; then mount -t tmpfs -o mode=1777 memory ".$1"; else mount --bind "$2" ".$1"; fi
  if [ "$3" = ro ]; then mount -o remount,bind,ro ".$1"; fi
  shift 3
done
shift
if [ "$1" = ro ]; then mount -o remount,ro "$root"; fi
shift
exec chroot . "$@"
"""
GET = """import http.client, sys
connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=float(sys.argv[4]))
connection.request("GET", sys.argv[3])
sys.exit(0 if 200 <= connection.getresponse().status < 400 else 1)
"""


class Pod:
    """Runs `template`, a pod template. `more` is the environment added by controllers and kubelet, `machine` is the
    cluster's machine whose address the pod has."""

    def __init__(self, world, machine, name, template, more):
        self.world, self.machine, self.name = world, machine, name
        self.address = world.machines.address(machine)
        self.spec = template["spec"]
        (self.container,) = self.spec["containers"]
        self.folder = os.path.join(world.folder, f"pod{machine}")
        os.makedirs(os.path.join(self.folder, "root"))
        os.mkdir(os.path.join(self.folder, "etc"))
        self.environment = self._environment(more)
        self._write_etc()
        world.machines.run(machine, f"hostname {name}")
        self.log = os.path.join(self.folder, "log")
        self.process = None

    # ---- the role of kubelet

    def start(self):
        command = [manifests.expand(word, self.environment) for word in self.container["command"] + self.container.get("args", [])]
        read_only = "ro" if self.container.get("securityContext", {}).get("readOnlyRootFilesystem") else "rw"
        argv = ["unshare", "--mount", "--pid", "--ipc", "--fork", "sh", "-c", ROOT, "sh", os.path.join(self.folder, "root"), self.folder,
                self.world.image, *self._mounts(), "--", read_only, *self._as_user(["--pdeathsig", "KILL"]), *command]
        self.process = self.world.machines.start(self.machine, argv, self.log, dict(os.environ))
        self.world.processes.append(self.process)

    def probe(self, kind):
        """Returns whether that probe of the manifest succeeds now, asked from the machine like kubelet's."""
        probe = self.container[kind]
        asked = probe["httpGet"]
        port = {port["name"]: port["containerPort"] for port in self.container["ports"]}[asked["port"]]
        argv = [sys.executable, "-S", "-c", GET, self.address, str(port), asked["path"], str(probe.get("timeoutSeconds", 1))]
        return subprocess.run(self.world.machines.on(cluster.HUB, argv), stderr=subprocess.DEVNULL, check=False).returncode == 0

    def execute(self, command, patience):
        """Runs a command in the container, like a hook, an exec probe or kubectl exec. Returns (status, output)."""
        argv = ["nsenter", "--target", str(self.first()), "--mount", "--pid", "--net", "--uts", "--ipc", "--root", "--wd=/"]
        done = subprocess.run(argv + self._as_user([]) + command, capture_output=True, text=True, timeout=patience, check=False)
        return done.returncode, done.stdout + done.stderr

    def terminate(self):
        """Runs preStop, SIGTERM, and SIGKILL after the grace period, which includes the hook. Returns the status."""
        deadline = time.monotonic() + self.spec["terminationGracePeriodSeconds"]
        hook = self.container.get("lifecycle", {}).get("preStop")
        if hook and self.process.poll() is None:
            status, said = self.execute(hook["exec"]["command"], self.spec["terminationGracePeriodSeconds"])
            if status:
                raise AssertionError(f"preStop of {self.name} failed with {status}: {said}")
        cluster.send(self.first(), signal.SIGTERM)
        try:
            return self.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            return self.wait(10)

    def kill(self):
        """Kills the pod without notice, as if its machine were lost."""
        cluster.send(self.first(), signal.SIGKILL)

    def wait(self, patience):
        status = self.process.wait(patience)
        return 128 - status if status < 0 else status

    def first(self):
        """Returns the pid of the container's first process on this machine; None if it has ended."""
        return cluster.child(self.process.pid)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def learn(self, hosts):
        """Sets the names that DNS resolves from now on."""
        with open(os.path.join(self.folder, "etc", "hosts"), "w", encoding="utf-8") as file:
            file.write(f"127.0.0.1 localhost\n{self.address} {self.name}\n{hosts}")

    # ---- reading the manifest

    def _environment(self, more):
        user = {"PATH": PATH, "HOME": "/home/mtrun", "HOSTNAME": self.name}
        environment = {**user, "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        for variable in self.container.get("env", []) + [{"name": name, "value": value} for name, value in more.items()]:
            environment[variable["name"]] = self._value(variable, environment)
        return environment

    def _value(self, variable, environment):
        if "value" in variable:
            return manifests.expand(variable["value"], environment)
        source = variable["valueFrom"]
        if "secretKeyRef" in source:
            return self.world.secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]]
        return {"status.podIP": self.address, "metadata.name": self.name}[source["fieldRef"]["fieldPath"]]

    def _write_etc(self):
        user = f"mtrun:x:{IMAGE_USER}:{IMAGE_USER}::/home/mtrun:/bin/sh\n"
        for name, text in (("passwd", "root:x:0:0::/root:/bin/sh\n" + user), ("group", f"root:x:0:\nmtrun:x:{IMAGE_USER}:\n"),
                           ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"), ("hostname", self.name + "\n")):
            with open(os.path.join(self.folder, "etc", name), "w", encoding="utf-8") as file:
                file.write(text)

    def _as_user(self, more):
        """Returns a command prefix: user and rights of the security contexts, only the container's environment."""
        context, own = self.spec.get("securityContext", {}), self.container.get("securityContext", {})
        user, group = context.get("runAsUser", IMAGE_USER), context.get("runAsGroup", IMAGE_USER)
        words = ["setpriv", "--reuid", str(user), "--regid", str(group), "--groups", str(context.get("fsGroup", group)), *more]
        if "ALL" in own.get("capabilities", {}).get("drop", []):
            words += ["--inh-caps=-all", "--bounding-set=-all"]
        if own.get("allowPrivilegeEscalation") is False:
            words += ["--no-new-privs"]
        return words + ["env", "-i", *(f"{name}={value}" for name, value in self.environment.items())]

    def _mounts(self):
        volumes = {volume["name"]: volume for volume in self.spec.get("volumes", [])}
        words = []
        for mount in self.container.get("volumeMounts", []):
            words += [mount["mountPath"], self._source(volumes[mount["name"]]), "ro" if mount.get("readOnly") else "rw"]
        return words

    def _source(self, volume):
        """Returns the folder to mount. With fsGroup its files belong to that group, with the same rights as root."""
        group = self.spec.get("securityContext", {}).get("fsGroup")
        if "emptyDir" in volume:
            return "memory"
        if "secret" in volume:
            return self._secret(volume["secret"], group)
        folder = self.world.claim(volume["persistentVolumeClaim"]["claimName"])
        if group is not None:
            shutil.chown(folder, group=group)
            os.chmod(folder, 0o2775)
        return folder

    def _secret(self, secret, group):
        """Writes a secret like kubelet: links to root's files in a folder that can be exchanged."""
        folder = os.path.join(self.folder, "secret-" + secret["secretName"])
        os.makedirs(os.path.join(folder, "..version"))
        os.symlink("..version", os.path.join(folder, "..data"))
        for key, value in self.world.secrets[secret["secretName"]].items():
            path = os.path.join(folder, "..version", key)
            with open(path, "w", encoding="utf-8") as file:
                file.write(value)
            os.chmod(path, secret.get("defaultMode", 0o644) | (0o440 if group is not None else 0))
            if group is not None:
                shutil.chown(path, group=group)
            os.symlink(os.path.join("..data", key), os.path.join(folder, key))
        return folder
