"""The grading processes: started at their first use, one request at a time each, replaced when they end or hang."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence

from conductor_plugin.grading.verdict import Verdict

START_SECONDS = 60.0
REPLY_SECONDS = 30.0
"""On the clock, for a busy machine; the process itself counts processor time, see `worker`."""
MAX_LINE = 2**22
MODULE = "conductor_plugin.grading.worker"


class ProcessLost(Exception):
    """The process ended, or gave no reply in time; the next request starts another."""


class GradingProcess:
    """One process, used by one task at a time."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def judge(self, grader: str, gold: str, answer: str, options: Sequence[str]) -> Verdict:
        """ProcessLost if the process ends or hangs over this answer or cannot be started; cancelling ends it."""
        line = json.dumps([grader, gold, answer, list(options)]).encode() + b"\n"
        try:
            if self._process is None or self._process.returncode is not None:
                await self._start()
            reply = await asyncio.wait_for(self._exchange(line), REPLY_SECONDS)
            return Verdict.model_validate_json(reply)
        except (OSError, ValueError, TimeoutError) as error:
            await self.stop()
            raise ProcessLost(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None
        except BaseException:
            # Cancelled: its reply would be taken for that of the next request.
            self._kill()
            raise

    async def stop(self) -> None:
        """End the process and reap it."""
        process = self._kill()
        if process is not None:
            await process.wait()

    async def _start(self) -> None:
        self._kill()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", MODULE),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=_environment(),
            limit=MAX_LINE,
            # Ctrl-C in a terminal is for the parent, which then closes the child in its own time.
            start_new_session=True,
        )
        await asyncio.wait_for(self._exchange(b""), START_SECONDS)

    async def _exchange(self, line: bytes) -> bytes:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        if line:
            process.stdin.write(line)
            await process.stdin.drain()
        reply = await process.stdout.readline()
        if not reply.endswith(b"\n"):
            raise OSError("the process ended without a reply")
        return reply

    def _kill(self) -> asyncio.subprocess.Process | None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            try:
                process.kill()
            except ProcessLookupError:
                return None
        return process


def _environment() -> dict[str, str]:
    """What the process needs to import what this one can import, and nothing else: no API keys."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "PYTHONHOME") if name in os.environ}
    # The same numbers in every process: string hashes order sets, and sympy's sums.
    return {**kept, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
