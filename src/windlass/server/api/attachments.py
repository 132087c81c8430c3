"""Targets that people attach: tried before they are kept, kept with what opens them, and forgotten with it."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field, SecretStr
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass.core.entities import Target
from windlass.core.errors import AlreadyExists, Conflict, InvalidRequest, NotFound
from windlass.drivers.base import Health
from windlass.drivers.openssh import keys
from windlass.server.addresses import is_shared
from windlass.server.api.targets import MOST_SLOTS, TARGETS, Slots
from windlass.server.call import Call, answer
from windlass.server.execution.ingest import RunIngest
from windlass.server.execution.target_probe import PASSWORD, PRIVATE_KEY, WORKSPACE_KEY, Trial, checked_config
from windlass.server.parameters import Body, TargetName, WorkspaceName
from windlass.server.routes import route
from windlass.server.views import TargetView, target_view
from windlass.store.secrets import SealedCredential

BUILT_IN = ("local", "docker")
LEAST_SLOTS = 4
USUAL_PORT = 22
# Where a machine is may change; with these, runs that go on there are found again.
IDENTITY = ("host_key", "username", "root")
_TRIES = 5
Config = dict[str, Any]
Kind = Annotated[str, Field(min_length=1, max_length=64)]
Secret = Annotated[SecretStr, Field(min_length=1, max_length=1024)]


class Credentials(Body):
    """What lets us in; with the login `workspace-key`, what puts the workspace's key there."""

    password: Secret | None = None
    private_key: Annotated[SecretStr, Field(min_length=1, max_length=keys.LARGEST)] | None = None
    passphrase: Secret | None = None


class Question(Body):
    kind: Kind
    config: Config


class NewTarget(Body):
    name: TargetName
    kind: Kind
    config: Config
    credentials: Credentials = Credentials()
    slots: Slots | None = None
    exist_ok: bool = False


class Trust(Body):
    host_key: Annotated[str, Field(min_length=1, max_length=20_000)]
    host_key_confirmed: bool = True


class IdentityView(TypedDict):
    host_key: str
    fingerprint: str
    accepts: list[str]


class Detached(TypedDict):
    name: str
    left: list[str]


class PublicKey(TypedDict):
    public_key: str


@route("POST", "/workspaces/{workspace}/identify", "targets.write", answers=IdentityView,
       errors=(404, 409, 413, 422, 502, 503), takes="json")  # fmt: skip
def identify(call: Call, workspace: WorkspaceName, body: Question) -> Response:
    """Who answers at an address: its host key, and the ways in that it has. No credential is sent there."""
    config = {**checked_config(body.kind, body.config), "host_key": None}
    return _answer_identity(call, workspace, _target(call, str(config["address"]), body.kind, config))


@route("POST", f"{TARGETS}/{{name}}/identify", "targets.write", answers=IdentityView, errors=(404, 422, 502, 503))
def identify_again(call: Call, workspace: WorkspaceName, name: TargetName) -> Response:
    """Who answers now where a target is."""
    target = call.context.store.targets.get(workspace, name)
    checked_config(target.kind, target.config)
    return _answer_identity(call, workspace, target)


@route("POST", TARGETS, "targets.write", status=201, answers=TargetView, errors=(404, 409, 413, 422, 502, 503),
       takes="json")  # fmt: skip
def attach(call: Call, workspace: WorkspaceName, body: NewTarget) -> Response:
    """Attach a machine under a name. It is identified and tried first; if that fails, nothing is kept.

    Without a `host_key` in the configuration the first one is pinned. With `exist_ok`, a target of that name is
    attached anew.
    """
    config, given = checked_config(body.kind, body.config), login_secrets(body.credentials)
    check_login(call, config["login"], given)
    known = _known(call, workspace, body)
    if known is None or body.exist_ok:
        known = _attach(call, workspace, body, known, config, given)
        call.context.targets.forget(workspace, known.name)
    elif not _is_same(call, workspace, known, config, given):
        raise AlreadyExists(
            f"There is a target {body.name} already.", "Choose another name, or attach it anew with --update."
        )
    return answer(target_view(known, call.context.store.targets.counts(workspace)), 201)


@route("POST", f"{TARGETS}/{{name}}/trust", "targets.write", answers=TargetView, errors=(404, 409, 413, 422, 502, 503),
       takes="json")  # fmt: skip
def trust(call: Call, workspace: WorkspaceName, name: TargetName, body: Trust) -> Response:
    """Pin this host key, if it is what the machine has now. Ends a quarantine. `host_key_confirmed`: whether somebody
    compared it.
    """
    targets = call.context.store.targets
    known = targets.get(workspace, name)
    checked_config(known.kind, known.config)
    seen = Trial(call.context.targets, workspace).identify(known)
    if keys.host_key(body.host_key) != seen.pin:
        raise Conflict(f"{name} has the host key {seen.shown_as}, not the one that is to be trusted.")
    config = {**known.config, "host_key": seen.pin, "host_key_confirmed": body.host_key_confirmed}
    changes = {"config": config, "quarantine": None}
    target = call.context.store.attachments.change(workspace, known, changes, call.principal.name, "target.trust")
    call.context.targets.forget(workspace, name)
    return answer(target_view(target, targets.counts(workspace)))


@route("DELETE", f"{TARGETS}/{{name}}", "targets.write", answers=Detached, errors=(404, 409, 422))
def detach(call: Call, workspace: WorkspaceName, name: TargetName, force: bool = False) -> Response:
    """Forget a target and what opens it; what is on the machine stays. While runs go on there, or other targets are
    reached through it, only by `force`: the runs fail, keep the logs that were brought home, and the story of each says
    what was left.
    """
    known = call.context.store.targets.get(workspace, name)
    if name in BUILT_IN:
        raise Conflict(f"{name} is this server's own target and stays.")
    config = known.config
    where = f"{config.get('username', '')}@{config.get('address', '')}:{config.get('root', '')}".strip("@:")
    context = call.context
    left = context.store.attachments.remove(workspace, name, call.principal.name, force, where)
    context.targets.forget(workspace, name)
    ingest = RunIngest(context.store, context.hub, context.settings.log_cap_bytes)
    for run in left:
        ingest.seal_logs_of_detached(run)
        context.hub.publish(run.id)
    return answer({"name": name, "left": [run.id for run in left]})


@route("GET", "/workspaces/{workspace}/public-key", "targets.write", answers=PublicKey)
def public_key(call: Call, workspace: WorkspaceName) -> Response:
    """The public half of the workspace's own key, which is made at first use."""
    return answer({"public_key": _public_key(call, workspace)})


def _answer_identity(call: Call, workspace: str, target: Target) -> Response:
    seen = Trial(call.context.targets, workspace).identify(target)
    return answer(
        {"host_key": seen.pin, "fingerprint": seen.shown_as, "accepts": list(seen.details.get("accepts", ()))}
    )


def _target(call: Call, name: str, kind: str, config: Config) -> Target:
    return Target(name, kind, config, datetime.now(UTC), attached_by=call.principal.name)


def _known(call: Call, workspace: str, body: NewTarget) -> Target | None:
    """The target that would be replaced; refuses early what cannot be."""
    if body.name in BUILT_IN:
        raise Conflict(f"{body.name} is the name of this server's own target.", "Choose another name.")
    try:
        known = call.context.store.targets.get(workspace, body.name)
    except NotFound:
        return None
    if known.kind != body.kind:
        raise Conflict(f"The target {body.name} is of kind {known.kind}, not {body.kind}.", "Choose another name.")
    return known


def _is_same(call: Call, workspace: str, known: Target, config: Config, given: Mapping[str, SecretStr]) -> bool:
    """Whether this asks for what is there already: a request that was repeated because its answer was lost."""
    said = {key: value for key, value in config.items() if key != "host_key" or value is not None}
    if known.attached_by != call.principal.name or any(known.config.get(key) != said[key] for key in said):
        return False
    kept = call.context.keystore.of_target(workspace, known.name)
    return config["login"] == "workspace-key" or all(
        hmac.compare_digest(
            kept.get(f"target/{known.name}/{what}").get_secret_value().encode(), value.get_secret_value().encode()
        )
        for what, value in given.items()
    )


def _attach(
    call: Call,
    workspace: str,
    body: NewTarget,
    known: Target | None,
    config: Config,
    given: Mapping[str, SecretStr],
) -> Target:
    trial = Trial(call.context.targets, workspace)
    target = trial.pinned(_target(call, body.name, body.kind, _remembered(known, config)))
    health = _try(call, workspace, trial, target, given)
    offered = replace(target, inventory=dict(health.inventory), slots=body.slots or _slots(health, known))
    return _keep(call, workspace, known, offered, {} if config["login"] == "workspace-key" else given)


def _remembered(known: Target | None, config: Config) -> Config:
    """The host key of a machine that was attached before is known: another is not taken for it unless somebody has
    compared that.
    """
    is_compared = config["host_key"] is not None and config["host_key_confirmed"]
    if known is None or is_compared or _place(known.config) != _place(config):
        return config
    pinned = known.config["host_key"]
    if config["host_key"] not in (None, pinned):
        raise Conflict(
            f"{config['address']} has the host key {keys.fingerprint(config['host_key'])}, not the one that "
            f"{known.name} was attached with: {keys.fingerprint(pinned)}. Nothing was sent there.",
            f"If the machine was set up anew: windlass compute trust {known.name}",
        )
    return {**config, "host_key": pinned, "host_key_confirmed": known.config["host_key_confirmed"]}


def _place(config: Config) -> tuple[str, int]:
    return config["address"], config.get("port") or USUAL_PORT


def login_secrets(credentials: Credentials) -> dict[str, SecretStr]:
    """Credentials by the names under which they are kept; a private key without its passphrase."""
    found: dict[str, SecretStr] = {}
    if credentials.password is not None:
        if any(sign in credentials.password.get_secret_value() for sign in "\0\r\n"):
            raise InvalidRequest("The password has a character that cannot be typed at a login.")
        found[PASSWORD] = credentials.password
    if credentials.private_key is not None:
        passphrase = credentials.passphrase.get_secret_value() if credentials.passphrase else None
        key = keys.read_private_key(credentials.private_key.get_secret_value(), passphrase)
        found[PRIVATE_KEY] = SecretStr(key)
    elif credentials.passphrase is not None:
        raise InvalidRequest("A passphrase was given, and no private key.")
    return found


def check_login(call: Call, login: str, given: Mapping[str, SecretStr]) -> None:
    """Refuse a login whose credentials are missing or of another kind, and a shared server's own agent."""
    names = set(given)
    wanted = {"password": {PASSWORD}, "key": {PRIVATE_KEY}, "agent": set[str]()}.get(login)
    if login == "agent" and is_shared(call.context.settings):
        raise InvalidRequest(
            "People share this server: the keys of the account that it runs by are not for its users.",
            "Log in with a password, a private key, or the workspace's key: -k",
        )
    if len(names) > 1 or (wanted is not None and names != wanted):
        needed = " and ".join(sorted(wanted or ())) or "no credentials"
        raise InvalidRequest(f"The login {login!r} needs {needed}, and got {', '.join(sorted(names)) or 'none'}.")


def _try(call: Call, workspace: str, trial: Trial, target: Target, given: Mapping[str, SecretStr]) -> Health:
    if target.config["login"] != "workspace-key":
        return trial.check(target, given)
    key = _public_key(call, workspace)
    if not given:
        return trial.check_later(target, key)
    trial.install(target, given, key)
    return trial.check(target, {})


def _slots(health: Health, known: Target | None) -> int:
    if known is not None and known.slots is not None:
        return known.slots
    cores = health.inventory.get("cores")
    return int(min(max(LEAST_SLOTS, cores if isinstance(cores, (int, float)) else 0), MOST_SLOTS))


def _keep(call: Call, workspace: str, known: Target | None, target: Target, given: Mapping[str, SecretStr]) -> Target:
    """Keep it all in one act. What was sealed for a version that somebody else took meanwhile is sealed again."""
    attachments = call.context.store.attachments
    for left in reversed(range(_TRIES)):
        values = {f"target/{target.name}/{what}": value for what, value in given.items()}
        sealed = [SealedCredential(*each) for each in call.context.keystore.sealed(workspace, values)]
        try:
            if known is None:
                return attachments.add(workspace, target, sealed)
            renewed = replace(target, created_at=known.created_at)
            return attachments.replace(workspace, known, renewed, sealed, _moves(known.config, target.config))
        except Conflict as e:
            if not left or "runs" in e.details:
                raise
    raise AssertionError("the last try returns or raises")


def _moves(before: Config, after: Config) -> bool:
    """Whether another machine, account or folder is meant."""
    return any(before.get(key) != after.get(key) for key in IDENTITY)


def _public_key(call: Call, workspace: str) -> str:
    store, keystore, by = call.context.store, call.context.keystore, call.principal.name
    if store.secrets.find(workspace, WORKSPACE_KEY) is None:
        private, _ = keys.make_key_pair("")
        [(name, version, sealed)] = keystore.sealed(workspace, {WORKSPACE_KEY: SecretStr(private)})
        try:
            if version == 1:
                store.secrets.put(workspace, name, version, sealed, "nobody", by)
        except Conflict:
            pass  # somebody else has made it in this moment, and that one counts
    private = keystore.use(workspace, WORKSPACE_KEY, by, {"for": "its public half"}).get_secret_value()
    return f"{keys.public_of(private)} windlass-{workspace}"
