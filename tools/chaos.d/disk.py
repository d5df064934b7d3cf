"""A storm's own small disk, which a file fills."""
import contextlib
import errno
import os
import shutil

import mounts

BLOCK_BYTES = 4096  # the file's last block has room for a little more


class Disk:
    """`folder` as a disk of `mebibytes` MiB, visible as far as mounts.own() reaches."""

    def __init__(self, folder, mebibytes):
        self.folder, self.filler, self.read_only = folder, os.path.join(folder, ".filler"), False
        os.makedirs(folder)
        mounts.memory(folder, mebibytes)

    def fill(self):
        """Fills the disk to the last byte."""
        descriptor = os.open(self.filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        size = 1 << 20
        while size:
            try:
                os.write(descriptor, bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2
        os.close(descriptor)

    def refuses(self):
        """Returns whether there is no space for more than a block."""
        path = os.path.join(self.folder, ".probe")
        try:
            with open(path, "wb", buffering=0) as file:
                return file.write(bytes(BLOCK_BYTES + 1)) <= BLOCK_BYTES
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return True
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)

    def is_full(self):
        return os.path.exists(self.filler)

    def empty(self):
        os.remove(self.filler)

    def set_read_only(self, read_only):
        """Mounts the folder read-only over itself, or ends that. Files that are already open stay writable."""
        (mounts.cover if read_only else mounts.drop)(self.folder)
        self.read_only = read_only

    def device(self):
        return os.stat(self.folder).st_dev

    def close(self):
        """Unmounts the disk; its files are in an ordinary folder of that name afterwards."""
        if self.read_only:
            self.set_read_only(False)
        shutil.copytree(self.folder, self.folder + ".copy", symlinks=True, ignore=shutil.ignore_patterns(".filler"))
        mounts.drop(self.folder)
        os.rmdir(self.folder)
        os.rename(self.folder + ".copy", self.folder)
