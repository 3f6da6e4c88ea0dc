"""A command that is run as if we were not there: its output goes on byte by byte, signals reach it, its code is ours.

Where our standard output is a terminal, the command gets a pseudo-terminal, so that progress bars and line buffering
stay as they are; else a pipe. When both output streams lead to the same place they share one channel, and the
order in which they were written is kept.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from typing import Optional

BLOCK = 1 << 16
#: bytes of a pipe that the command may be ahead of us, where the system allows it
PIPE_SIZE = 1 << 20
#: what is passed on to the command
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
#: si_code of a signal that the kernel sent, as for Ctrl-C; it went to the whole foreground group, the command included
_FROM_KERNEL = 0x80
#: seconds that output is still waited for when the command has ended but a child of its own holds the pipe
LINGER = 0.3


class Child:
    """`run` starts the command and comes back with its exit status; `output` is called with each block that it wrote,
    after the block was passed on, and `idle` when nothing comes for a moment. It is called under `signals_held`."""

    def __init__(self, command: Sequence[str], output: Callable[[str, bytes], None], idle: Callable[[], None]) -> None:
        self.command = list(command)
        self.output = output
        self.idle = idle
        self.process: Optional[subprocess.Popen[bytes]] = None

    def run(self, mask: set[signal.Signals]) -> int:
        """The return code as `subprocess` gives it: negative for a signal. Raises OSError when it cannot be started. `mask`
        holds the signals that the command is to have blocked: those that we had."""
        channels = _channels()
        try:
            self.process = subprocess.Popen(
                self.command,
                stdout=channels[0].theirs,
                stderr=channels[-1].theirs,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask) and None,
            )
        finally:
            for channel in channels:
                os.close(channel.theirs)
        try:
            self._pump(channels)
        finally:
            for channel in channels:
                os.close(channel.ours)
        return self.process.wait()

    def _pump(self, channels: list[_Channel]) -> None:
        assert self.process is not None
        poll = select.poll()
        open_now = {channel.ours: channel for channel in channels}
        for fd in open_now:
            poll.register(fd, select.POLLIN)
        ended: Optional[float] = None
        while open_now:
            self._forward_signals()
            ready = poll.poll(50 if ended is None else LINGER * 1000)
            for fd, _ in ready:
                block = _read(fd)
                if not block:
                    poll.unregister(fd)
                    del open_now[fd]
                    continue
                channel = open_now[fd]
                channel.pass_on(block)
                self.output(channel.name, block)
            if not ready:
                if ended is not None:
                    return
                self.idle()
                if self.process.poll() is not None:
                    ended = 0.0

    def _forward_signals(self) -> None:
        assert self.process is not None
        while True:
            info = signal.sigtimedwait((*FORWARDED, signal.SIGWINCH), 0)
            if info is None:
                return
            if info.si_signo == signal.SIGWINCH:
                continue
            # A terminal that goes away tells only the leader of its session, which may be us.
            by_terminal = info.si_code == _FROM_KERNEL and info.si_signo != signal.SIGHUP
            if not by_terminal and self.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    self.process.send_signal(info.si_signo)


class _Channel:
    """One way from the command to one of our own streams."""

    def __init__(self, name: str, ours: int, theirs: int, target: int) -> None:
        self.name = name
        self.ours = ours
        self.theirs = theirs
        self.target: Optional[int] = target

    def pass_on(self, block: bytes) -> None:
        """Writes all of it. When the reader has gone, the run goes on without it."""
        view = memoryview(block)
        while view and self.target is not None:
            try:
                view = view[os.write(self.target, view) :]
            except BlockingIOError:
                select.select([], [self.target], [])
            except OSError:
                self.target = None


def _channels() -> list[_Channel]:
    """One channel when both our streams are the same file, else two."""
    out, err = _fd(sys.stdout, 1), _fd(sys.stderr, 2)
    if _same(out, err):
        return [_channel("<output>", out)]
    return [_channel("<stdout>", out), _channel("<stderr>", err)]


def _channel(name: str, target: int) -> _Channel:
    if os.isatty(target):
        ours, theirs = pty.openpty()
        attributes = termios.tcgetattr(theirs)
        attributes[1] &= ~termios.OPOST  # the real terminal does that
        termios.tcsetattr(theirs, termios.TCSANOW, attributes)
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(target, termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    else:
        ours, theirs = os.pipe()
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(ours, 1031, PIPE_SIZE)  # F_SETPIPE_SZ
    return _Channel(name, ours, theirs, target)


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, BLOCK)
    except OSError as error:
        if error.errno == errno.EIO:  # the other side of a pseudo-terminal has been closed
            return b""
        raise


def _same(first: int, second: int) -> bool:
    try:
        one, two = os.fstat(first), os.fstat(second)
    except OSError:
        return False
    return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)


def _fd(stream: object, default: int) -> int:
    try:
        return int(stream.fileno())  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        return default


@contextlib.contextmanager
def signals_held() -> Iterator[set[signal.Signals]]:
    """Signals wait until we ask for them; gives the mask from before, which the command gets back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (*FORWARDED, signal.SIGWINCH))
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        _forget((*FORWARDED, signal.SIGWINCH))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def only_hangups_held() -> None:
    """The command has ended: what was meant for it is forgotten, and Ctrl-C is for us again. A terminal that goes away may
    say so twice (the shell does, and the kernel); neither is to cut off what there is to say of the run."""
    _forget((*FORWARDED, signal.SIGWINCH))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*FORWARDED, signal.SIGWINCH} - {signal.SIGHUP})


def _forget(signals: Sequence[signal.Signals]) -> None:
    while signal.sigtimedwait(signals, 0) is not None:
        pass
