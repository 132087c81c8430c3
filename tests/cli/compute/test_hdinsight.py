"""`computetarget attach cluster` on a server that has the kind `spark`: a script of answers, since none has it yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Result, Shell
from tests.client.fake_server import FakeServer, answer, serving

CLUSTER: dict[str, Any] = {
    "name": "hdi",
    "kind": "spark",
    "config": {"address": "head.example.org", "port": 2222, "username": "jane"},
    "is_attached": True,
    "created_at": "2026-01-31T12:00:00.000000Z",
}
WORDS = ("--name", "hdi", "--address", "head.example.org:2222", "--username", "jane")


def attach(tmp_path: Path, kinds: list[str], *words: str) -> tuple[Result, FakeServer]:
    by_path = {
        "/kinds": {"kinds": [{"kind": kind} for kind in kinds]},
        "/targets": CLUSTER,
        "/targets/hdi": CLUSTER,
        "": {
            **dict.fromkeys(("subscription_id", "resource_group", "location"), ""),
            "name": "default",
            "created_at": CLUSTER["created_at"],
            "tags": {},
        },
    }

    def reply(target: str) -> bytes:
        return answer(by_path[target.partition("/workspaces/default")[2]])

    with serving(reply=reply) as server:
        env = {"WINDLASS_URL": server.url, "WINDLASS_TOKEN": "t" * 43}
        return Shell(tmp_path / "home")(*words, cwd=tmp_path, env=env), server


@pytest.mark.parametrize("line", [("computetarget",), ("az", "ml", "computetarget")])
@pytest.mark.parametrize("kind", [("attach", "cluster"), ("attach", "--cluster")])
def test_a_cluster_is_attached_once_the_server_has_the_kind(
    tmp_path: Path, line: tuple[str, ...], kind: tuple[str, ...]
) -> None:
    done, server = attach(tmp_path, ["local", "spark"], *line, *kind, *WORDS, "--password", "s3cret")
    assert done.code == 0 and 'operation "Succeeded"' in done.out, done
    [body] = [json.loads(asked.body) for asked in server.requests if asked.method == "POST"]
    assert body == {
        "name": "hdi",
        "kind": "spark",
        "config": {"address": "head.example.org", "port": 2222, "username": "jane", "login": "password"},
        "credentials": {"password": "s3cret"},
        "exist_ok": True,
    }
    assert "s3cret" not in done.out + done.err


def test_without_the_kind_nothing_is_sent(tmp_path: Path) -> None:
    done, server = attach(tmp_path, ["local"], "computetarget", "attach", "cluster", *WORDS, "--password", "s3cret")
    assert done.code == 2 and "hdi, an HDInsight cluster, is not provided in this version" in done.err
    assert all(asked.method == "GET" for asked in server.requests)
