"""A kubeconfig's exec plugin, which asks a cloud for a token: it gets half a minute, and is ended then.

lightkube waits for it without an end, so a plugin that hangs would keep its thread from anything else for ever.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence

import httpx2
from lightkube.config.client_adapter import ExecAuth
from lightkube.config.models import UserExec
from lightkube.core.exceptions import ConfigError as KubeconfigError

LEAST_S = 30.0
"""A cloud's program begins slowly, and is asked seldom; a request that may take longer gives it as long."""


class ExecPlugin(ExecAuth):
    """Authentication by a plugin.

    Args:
        plugin: of the kubeconfig.
        timeout_s: of a request.
    """

    def __init__(self, plugin: UserExec, timeout_s: float) -> None:
        super().__init__(plugin)
        self._timeout_s = max(timeout_s, LEAST_S)

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """The client's call for each request: the plugin is asked where there is no token, or it is refused.

        Raises:
            KubeconfigError: the plugin fails, or does not end in time.
            LookupError, TypeError, ValueError: it prints no token.
        """
        if self._last_bearer:
            request.headers["Authorization"] = self._last_bearer
            response = yield request
            if response.status_code != httpx2.codes.UNAUTHORIZED:
                return
        command, environment = self._prepare()
        token = json.loads(run(command, environment, self._timeout_s))["status"]["token"]
        request.headers["Authorization"] = self._last_bearer = f"Bearer {token}"
        yield request


def run(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> bytes:
    """What a program prints; one that takes too long is ended with all that it has started.

    Raises:
        KubeconfigError: it fails, or takes too long.
        OSError: it cannot be started.
    """
    pipe, nobody = subprocess.PIPE, subprocess.DEVNULL
    # A group of its own: plugins are often shell scripts, and what those wait for must not outlast them.
    # Nobody is there to be asked, and behind a terminal it would be stopped for reading.
    with subprocess.Popen(command, env=environment, stdin=nobody, stdout=pipe, stderr=pipe, process_group=0) as process:
        try:
            output, words = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            raise KubeconfigError(f"exec plugin {command[0]} has not ended after {timeout_s} s") from error
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        said = words.decode(errors="replace")
        raise KubeconfigError(f"exec plugin {command[0]} returned {process.returncode}: {said}")
    return output
