"""The program of the interpreter that mtrun --warm_python keeps. It imports modules, then forks a worker for each request.
warm_python.cc embeds this text and starts it with python3 -u -c.

Arguments: the descriptor of a socket to the agent, then the names of the modules. It sends "r" once they are imported.
A request: the size of the texts as int64 together with descriptors (the worker's output and error, then those it keeps), then
NUL-terminated texts: the number of words, the words, the number of variables, the variables, the processors, and the numbers of
the kept descriptors. The answer: the worker's pid as int32."""
import ctypes
import fcntl
import importlib
import os
import runpy
import signal
import socket
import struct
import sys
import time


def take(channel, size):
    """Returns `size` bytes. Exits if the agent has closed the socket."""
    data = b""
    while len(data) < size:
        more = channel.recv(size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def serve(channel):
    """Answers requests until the agent closes the socket. Returns in the forked workers only, with the words to run."""
    agent = os.getppid()
    channel.sendall(b"r")
    while True:
        head, fds, _, _ = socket.recv_fds(channel, 8, 64)
        if not head:
            os._exit(0)
        head += take(channel, 8 - len(head))
        texts = take(channel, struct.unpack("=q", head)[0]).split(b"\0")
        answer, tell = os.pipe()
        middle = os.fork()
        if middle == 0:
            # The worker's parent exits, so that the worker becomes a child of the agent, which is a subreaper.
            if os.fork() != 0:
                os._exit(0)
            channel.close()
            os.close(answer)
            os.setsid()
            while os.getppid() != agent:
                time.sleep(0.0005)
            os.write(tell, struct.pack("=i", os.getpid()))
            os.close(tell)
            return become(agent, texts, fds)
        os.close(tell)
        os.waitpid(middle, 0)
        pid = os.read(answer, 4)
        os.close(answer)
        for fd in fds:
            os.close(fd)
        channel.sendall(pid)


def become(agent, texts, fds):
    """Gives this process the descriptors, environment and processors of the request. Returns the words to run."""
    count = int(texts.pop(0))
    words, texts = texts[:count], texts[count:]
    count = int(texts.pop(0))
    variables, (cpus, kept) = texts[:count], texts[count:count + 2]
    try:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    except (OSError, AttributeError):
        pass
    if os.getppid() != agent:
        os._exit(127)
    # First to high numbers, so that none is overwritten before it is moved.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(high, [1, 2] + [int(number) for number in kept.split(b",") if number]):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)
    os.environb.clear()
    for variable in variables:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    if cpus:
        os.sched_setaffinity(0, [int(cpu) for cpu in cpus.split(b",")])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # as if the worker had imported it
    return [os.fsdecode(word) for word in words]


class AsGiven(list):
    """A list of words that runpy cannot change: argv[0] remains the word that the program was started with."""

    def __setitem__(self, place, word):
        sys.argv = list(self)


def run(words):
    """Runs a module ("-m" first) or a script as python3 would."""
    module = words[0] == "-m"
    sys.argv = words[1:] if module else AsGiven(words)
    if module:
        sys.path[0] = os.getcwd()
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.realpath(words[0]))
        # An absolute path, as Python itself passes it: programs find their files by __file__ after a change of directory.
        runpy.run_path(os.path.abspath(words[0]), run_name="__main__")


channel = socket.socket(fileno=int(sys.argv[1]))
for name in sys.argv[2:]:
    importlib.import_module(name)
run(serve(channel))
