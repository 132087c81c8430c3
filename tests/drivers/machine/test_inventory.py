"""Problems of a machine are reported with the command that fixes each."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.drivers.machine.inventory import problems

INSTALL = "Docker is not installed on this machine, or does not run: sudo apt-get install docker.io"
START = "Docker does not run on this machine: sudo systemctl start docker"


@pytest.mark.parametrize(
    ("inventory", "message", "fix"),
    [
        ({"docker": {"missing": f"{INSTALL} (there is no /var/run/docker.sock)"}}, "Docker is not installed on this "
         "machine, or does not run.", "sudo apt-get install docker.io"),
        ({"docker": {"missing": f"{START} (there is no /var/run/docker.sock)"}}, "Docker does not run on this machine.",
         "sudo systemctl start docker"),
        ({"docker": {"missing": "This account may not use Docker (/run/d): sudo usermod -aG docker $USER, then"}},
         "This account may not use Docker (/run/d).", "sudo usermod -aG docker $USER, then"),
        ({"docker": {"missing": "It does not answer"}}, "It does not answer", "sudo systemctl start docker"),
        ({"docker": {"version": "20", "warning": "runc 1.0 is old."}}, "runc 1.0 is old.",
         "sudo apt-get install --only-upgrade runc"),
        ({"disk_free_mb": 900}, "Only 900 MB are free in ~/x.",
         "df -h ~/x   # make room there, or name another folder: --root"),
    ],
)  # fmt: skip
def test_each_problem_has_its_line(inventory: dict[str, Any], message: str, fix: str) -> None:
    [found] = problems(inventory, "~/x")
    assert (found["message"], found["fix"]) == (message, fix)
    assert found["level"] == ("missing" if "missing" in inventory.get("docker", {}) else "warning")
    assert found["about"] == ("docker" if "docker" in inventory else "disk")


@pytest.mark.parametrize("inventory", [{}, {"disk_free_mb": 90_000, "docker": {"version": "26.1"}}, {"docker": None}])
def test_a_machine_that_lacks_nothing_has_no_problems(inventory: dict[str, Any]) -> None:
    assert problems(inventory, "~/x") == []
