"""Environments are built on machines of a company's network as the server's own variables say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.company import INDEX_PASSWORD, PROXY_PASSWORD, Company
from tests.e2e.submitting import submit_script
from tests.faults.ssh_world import SshWorld
from windlass.core.entities import EnvironmentSpec

BUILD_LOG = "azureml-logs/20_image_build_log.txt"
EMPTY = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE", "NO_PROXY", "no_proxy"), "")


@pytest.mark.parametrize("trusted", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
@pytest.mark.parametrize("index", ["PIP_INDEX_URL", "UV_DEFAULT_INDEX"])
def test_a_machine_by_ssh_gets_them(ssh_world: SshWorld, tmp_path: Path, trusted: str, index: str) -> None:
    world = ssh_world
    with Company.made(tmp_path / "company", world.network.address) as company:
        names = {trusted: str(company.certificates), index: company.index, "HTTPS_PROXY": company.proxy}
        world.environment.update({**EMPTY, **names})
        world.start_server()
        run = submit_script(world, "import tiny; print(tiny.version)", environment=EnvironmentSpec(pip=("tiny==1.0",)))
        ended = world.wait_final(run["id"], 120)
        log = world.file(run["id"], BUILD_LOG).decode()
        assert ended["state"] == "Completed", log
        assert "tiny==1.0" in log
        assert company.connected and any(path.startswith("/simple/tiny") for path in company.fetched)
        for password in (INDEX_PASSWORD, PROXY_PASSWORD):
            assert password not in log + (world.home / "server.log").read_text()


def test_credentials_are_not_told_where_it_fails(ssh_world: SshWorld, tmp_path: Path) -> None:
    world = ssh_world
    with Company.made(tmp_path / "company", world.network.address) as company:
        names = {"SSL_CERT_FILE": str(company.certificates), "PIP_INDEX_URL": company.index}
        world.environment.update({**EMPTY, **names, "HTTPS_PROXY": company.proxy.replace("someone", "nobody")})
        world.start_server()
        run = submit_script(world, "print()", environment=EnvironmentSpec(pip=("tiny==1.0",)))
        ended = world.wait_final(run["id"], 120)
        assert (ended["state"], ended["reason"]) == ("Failed", "environment_failed")
        told = world.file(run["id"], BUILD_LOG).decode() + ended["message"] + (world.home / "server.log").read_text()
        assert "tiny" in told and INDEX_PASSWORD not in told and PROXY_PASSWORD not in told
