"""A mount namespace for this process and its children; its mounts disappear with the last of them."""
import ctypes
import functools
import os

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 1, 32, 0x1000, 0x4000, 0x40000, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


@functools.cache
def own():
    """Enters the namespace. Without root, this process first becomes root in a user namespace."""
    user, group = os.geteuid(), os.getegid()
    check(LIBC.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user else 0)),
          "no mount namespaces here (they need root or unprivileged user namespaces)")
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    check(LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "make the mounts private")


def memory(folder, mebibytes):
    """Mounts a file system of `mebibytes` MiB."""
    check(LIBC.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, f"size={mebibytes}m".encode()), f"mount {folder}")


def cover(folder):
    """Mounts a folder read-only over itself until drop(). A remount would fail while files are open for writing."""
    path = folder.encode()
    check(LIBC.mount(path, path, None, MS_BIND, None), f"mount {folder} over itself")
    check(LIBC.mount(None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY, None), f"remount {folder} read-only")


def drop(folder):
    check(LIBC.umount2(folder.encode(), MNT_DETACH), f"unmount {folder}")
