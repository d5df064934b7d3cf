"""old_kernel.py PROGRAM ARGUMENTS...: runs a program for which every system call that is newer than Linux 5.0 is missing (ENOSYS),
such as pidfd_open, clone3 and close_range. All architectures number these calls from 424 on."""
import ctypes
import errno
import os
import struct
import sys

FIRST_NEWER = 424
LOAD, AT_LEAST, RETURN = 0x20, 0x35, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JGE|BPF_K, BPF_RET|BPF_K
ALLOW, FAIL = 0x7FFF0000, 0x00050000 | errno.ENOSYS
NO_NEW_PRIVS, SECCOMP, FILTER = 38, 22, 2

program = b"".join(struct.pack("HBBI", *one) for one in (
    (LOAD, 0, 0, 0), (AT_LEAST, 0, 1, FIRST_NEWER), (RETURN, 0, 0, FAIL), (RETURN, 0, 0, ALLOW)))
memory = ctypes.create_string_buffer(program)


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
for call in ((NO_NEW_PRIVS, 1, 0, 0, 0),
             (SECCOMP, FILTER, ctypes.byref(Program(len(program) // 8, ctypes.addressof(memory))), 0, 0)):
    if libc.prctl(*call) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
