"""The secrets of a workspace. The server stores them encrypted and gives their values to runs only."""

from __future__ import annotations

import base64
import json
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from windlass.client.exceptions import ResourceNotFound, UserErrorException
from windlass.client.http import interpreter
from windlass.client.names import secret_name
from windlass.client.runs import script_secrets
from windlass.core.errors import NotFound

if TYPE_CHECKING:
    from windlass.client.workspace.workspace import Workspace

_UNSEAL_MODULE = "windlass.server.unseal"
_NO_TYPE = "application/NotProvided"  # as Azure has it


class Keyvault:
    """Set secrets, and read them in a run.

    >>> keyvault = Workspace.from_config().get_default_keyvault()
    >>> keyvault.set_secret(name="db-password", value="swordfish")
    >>> keyvault.get_secret(name="db-password")
    'swordfish'
    >>> [secret["name"] for secret in keyvault.list_secrets()]
    ['db-password']
    >>> keyvault.delete_secret("db-password")
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def set_secret(self, name: str, value: str, content_type: Any = _NO_TYPE) -> None:
        """Set a secret for the runs of the workspace. A secret of that name gets a new version.

        `content_type` describes the value, such as "application/json".
        """
        if not isinstance(value, str):
            raise UserErrorException(f"The value of a secret is text, not {type(value).__name__}.")
        named = getattr(content_type, "value", content_type)  # Azure has an enumeration for the usual ones
        body = {"value": value} if named in (None, _NO_TYPE) else {"value": value, "content_type": str(named)}
        kept = self._call("PUT", name, body)
        if not kept["is_masked"]:
            print(f"Warning: the value of {name} is too short to be masked in the logs of runs.", file=sys.stderr)

    def set_secrets(self, secrets_batch: Dict[str, str]) -> None:
        for name, value in secrets_batch.items():
            self.set_secret(name, value)

    def get_secret(self, name: str) -> str:
        """The value of a secret.

        In a run's script it is one that the run was granted. Elsewhere it can be read from the private server of this
        machine only: the server returns the encrypted value, which is decrypted here with a key file of the user.
        """
        secret_name(str(name))
        return script_secrets.get(name) if script_secrets.is_in_run() else self._open(name)

    def get_secrets(self, secrets: List[str]) -> Dict[str, Optional[str]]:
        """{name: value}; None for secrets that do not exist."""
        if script_secrets.is_in_run():
            found = script_secrets.read()
            return {name: found.get(name) for name in secrets}
        return {name: self._open_if_there(name) for name in secrets}

    def get_secret_content_type(self, name: str) -> str:
        """The content type that was set with the value; "application/NotProvided" if none was."""
        secret_name(str(name))
        found = {secret["name"]: secret.get("content_type") for secret in self._list()}
        if name not in found:
            raise ResourceNotFound(f"There is no secret {name}.", "`windlass secret list` lists those that there are.")
        return found[name] or _NO_TYPE

    def delete_secret(self, name: str) -> None:
        self._call("DELETE", name)

    def delete_secrets(self, secrets: List[str]) -> None:
        for name in secrets:
            self.delete_secret(name)

    def list_secrets(self) -> List[Dict[str, str]]:
        """[{"name": name}]; in a run's script, of those that the run was granted."""
        if script_secrets.is_in_run():
            return [{"name": name} for name in sorted(script_secrets.read())]
        return [{"name": secret["name"]} for secret in self._list()]

    def _list(self) -> List[Dict[str, Any]]:
        workspace = self.workspace
        found: List[Dict[str, Any]] = workspace._session.call("GET", f"{workspace._path}/secrets")["secrets"]
        return found

    def _call(self, method: str, name: str, body: Any = None, suffix: str = "") -> Any:
        path = f"{self.workspace._path}/secrets/{secret_name(str(name))}{suffix}"
        return self.workspace._session.call(method, path, body)

    def _open_if_there(self, name: str) -> Optional[str]:
        try:
            return self._open(name)
        except NotFound:
            return None

    def _open(self, name: str) -> str:
        if not self.workspace._session.address.home:
            raise UserErrorException(
                f"A server elsewhere hands out no value of a secret, and so not that of {name}.",
                "In a run that was granted it: Run.get_context().get_secret(...).",
            )
        return _unseal(self._call("POST", name, suffix="/sealed"))

    def __repr__(self) -> str:
        return f"Keyvault(workspace={self.workspace.name})"


def _unseal(envelope: Dict[str, Any]) -> str:
    """Decrypt in a process of the server's Python, since this one may lack the packages for it."""
    import subprocess

    command = [*interpreter.command(), "-m", _UNSEAL_MODULE, "--key-file", str(envelope.pop("key_file"))]
    sent = json.dumps(envelope).encode()
    done = subprocess.run(command, input=sent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        problem = done.stderr.decode("utf-8", "replace").strip().splitlines()[-2:]
        raise UserErrorException(
            f"The secret {envelope['name']} could not be opened here: {' '.join(problem)}",
            "The Python that runs this needs Windlass with its server: pip install windlass",
        )
    return base64.b64decode(done.stdout).decode("utf-8")
