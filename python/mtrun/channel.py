"""The worker's end of the channel to its agent: JSON lines over the Unix socket MTRUN_SOCKET (docs/protocol.md, "Channel
between a worker and its agent")."""
from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

from mtrun.own_launch import peer_of, unix_address

PROTOCOL_VERSION = 1
MOST_BYTES_A_LINE = 16 << 20


class Channel:
    """Calls `hear(message)` on its own reader thread for each message, and `lose(why)` once if the agent is gone.
    `send` can be called from any thread; messages to an agent that is gone are dropped."""

    def __init__(self, path: str, hear: Callable[[dict[str, Any]], None], lose: Callable[[str], None]) -> None:
        """Raises ConnectionError if no process, or another user's, is listening."""
        self._hear, self._lose, self._sending = hear, lose, threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(unix_address(path))
            _, uid = peer_of(self._socket)
            if uid not in (0, os.getuid()):
                raise PermissionError(f"it belongs to user {uid}")
        except OSError as error:
            self._socket.close()
            raise ConnectionError(f"cannot reach the agent at MTRUN_SOCKET={path}: {error} (if no mtrun started this "
                                  "program, unset MTRUN_SOCKET)") from error
        self._reader = threading.Thread(target=self._read, name="mtrun-channel", daemon=True)

    def start(self) -> None:
        self._reader.start()

    def send(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"type": kind, **fields}).encode() + b"\n"
        try:
            with self._sending:
                self._socket.sendall(line)
        except OSError:
            pass  # the reader reports the reason

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        if self._reader.is_alive() and threading.current_thread() is not self._reader:
            self._reader.join()
        self._socket.close()

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                while line := lines.readline(MOST_BYTES_A_LINE + 1):
                    if len(line) > MOST_BYTES_A_LINE or not line.endswith(b"\n"):
                        raise ValueError("a line is unterminated or too long")
                    message = json.loads(line)
                    if not isinstance(message, dict):
                        raise ValueError("a line is not a JSON object")
                    self._hear(message)
            self._lose("it closed the channel")
        except (OSError, ValueError) as error:
            self._lose(str(error))
