"""The configuration of a host's sshd, as its administrator would write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

PROGRAM = "/usr/sbin/sshd"


def configuration(
    folder: Path,
    *,
    host_keys: Sequence[str],
    takes_passwords: bool,
    takes_keys: bool,
    authority: str | None,
    forced_command: str | None,
    environment: Mapping[str, str],
    settings: Sequence[str],
) -> str:
    lines = [
        *settings,  # sshd takes the first word on anything
        *(f"HostKey {folder}/host_{kind}" for kind in host_keys),
        f"PidFile {folder}/sshd.pid",
        "UsePAM no",
        "UseDNS no",
        "PrintMotd no",
        "LogLevel VERBOSE",
        "MaxStartups 500",
        "MaxSessions 100",
        f"PasswordAuthentication {_said(takes_passwords)}",
        "KbdInteractiveAuthentication no",
        f"PubkeyAuthentication {_said(takes_keys)}",
        "AuthorizedKeysFile .ssh/authorized_keys",
        "Subsystem sftp internal-sftp",
    ]
    if authority is not None:
        (folder / "authority.pub").write_text(f"{authority}\n")
        lines.append(f"TrustedUserCAKeys {folder}/authority.pub")
    if forced_command is not None:
        lines.append(f"ForceCommand {forced_command}")
    if environment:  # all in one line: only the first such line counts
        lines.append("SetEnv " + " ".join(f'"{name}={value}"' for name, value in environment.items()))
    return "\n".join(lines) + "\n"


def _said(yes: bool) -> str:
    return "yes" if yes else "no"
