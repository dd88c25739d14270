"""What hangs here on purpose ends by its limit, and says so."""

import os
import socket
import subprocess
import sys
import time

import nbformat
import pytest

from rlrepro import reproduce
from rlrepro.lab import Release, ReleaseTimeout, ReleaseUnavailable, limits

RAISE_IT = "RLREPRO_TIMEOUT_FACTOR=2"


@pytest.fixture
def newest():
    import tianshou

    with Release(f"tianshou=={tianshou.__version__}") as release:
        yield release


@pytest.fixture
def silent_server():
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def alive(pid):
    """Whether it is there and not just waiting for its parent to notice."""
    try:
        return subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, timeout=10)
    except subprocess.TimeoutExpired:
        return True


def spin_beside(path):
    """Never ends, and neither does what it starts."""
    import subprocess

    path.write_text(str(subprocess.Popen(["sleep", "600"]).pid))
    while True:
        pass
