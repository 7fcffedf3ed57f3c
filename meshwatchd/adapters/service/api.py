"""What the Kubernetes API says, by `meshwatchd-kube service`: a program of its own, where it is installed."""

from __future__ import annotations

import asyncio
import shutil
from typing import Final

from meshwatchd.model.decoding import Door, decode_json
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.service_check import ApiFacts

PROGRAM: Final = "meshwatchd-kube"
ANSWER: Final = Door("kube answer", "run: meshwatchd-kube service NAME.NAMESPACE")
_MAX_COMPLAINT: Final = 300


async def ask_api(name: str, end_s: float, program: str = PROGRAM) -> tuple[ApiFacts | None, str]:
    """What there is about NAME.NAMESPACE, or why nothing could be asked; by `end_s` of the loop's clock."""
    found = shutil.which(program)
    if found is None:
        return None, f"{program} is not installed here"
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(
            found, "service", name, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
    except OSError as error:
        return None, f"{program}: {error.strerror or error}"
    try:
        async with asyncio.timeout_at(end_s):
            output, complaint = await process.communicate()
        if process.returncode:
            text = complaint.decode(errors="replace").strip().rpartition("\n")[2][:_MAX_COMPLAINT]
            return None, f"{program}: {text or f'exit status {process.returncode}'}"
        return decode_json(output, ApiFacts, ANSWER), ""
    except TimeoutError:
        return None, f"{program} did not answer in time"
    except DecodeError as error:
        return None, str(error)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
