"""Attach, create, trust, detach and delete targets of any kind, with the help of the kind's driver."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field, SecretStr, ValidationError
from starlette.responses import Response
from typing_extensions import TypedDict

from windlass import drivers
from windlass.core.entities import Target
from windlass.core.errors import AlreadyExists, Conflict, NotFound, SpecNotSupported, WindlassError
from windlass.drivers.base import Attachable, Health, Identity, Managed, Scalable, WorkspaceCredential
from windlass.server.api.compute import managed_targets
from windlass.server.api.compute.targets import MOST_SLOTS, TARGETS, Slots
from windlass.server.api.views import TargetView, target_view
from windlass.server.api.workspaces import local_config
from windlass.server.clusters.quotas import cluster_check
from windlass.server.execution.ingest import RunIngest
from windlass.server.execution.target_probe import (
    TargetProbe,
    attachable_kind,
    kind_for_users,
    outline,
    valid_config,
    valid_credentials,
)
from windlass.server.http.parameters import Body, TargetName, WorkspaceName
from windlass.server.http.request import ApiRequest, json_response
from windlass.server.http.routing import route
from windlass.server.security.secret_store import LARGEST
from windlass.store.access.secrets import SealedCredential

TAG = "attachments"

BUILT_IN = ("local", "docker")
LEAST_SLOTS = 4
_TRIES = 5
Config = dict[str, Any]
Kind = Annotated[str, Field(min_length=1, max_length=64)]
Pin = Annotated[str, Field(min_length=1, max_length=20_000)]
Given = Annotated[dict[str, Annotated[SecretStr, Field(max_length=LARGEST)]], Field(max_length=50)]


class Question(Body):
    kind: Kind
    config: Config


class NewTarget(Body):
    name: TargetName
    kind: Kind
    config: Config
    credentials: Given = {}
    pin: Pin | None = None
    pin_confirmed: bool = False
    slots: Slots | None = None
    exist_ok: bool = False


class Trust(Body):
    pin: Pin
    confirmed: bool = True


class IdentityView(TypedDict):
    pin: str
    shown_as: str
    what: str
    how_to_compare: str
    details: dict[str, Any]


class Probed(TypedDict):
    identity: IdentityView | None
    location: str
    endpoint: str


class AttachedView(TargetView):
    notes: list[str]


class Detached(TypedDict):
    name: str
    left: list[str]


class PublicHalf(TypedDict):
    public: str


@route("POST", "/workspaces/{workspace}/probe", "targets.write", answers=Probed,
       errors=(404, 409, 413, 422, 502, 503), body_type="json")  # fmt: skip
def probe(request: ApiRequest, workspace: WorkspaceName, body: Question) -> Response:
    """Probe an address before attaching it: the identity to compare and to pin. No credential is sent."""
    attachable_kind(body.kind)
    target = _target(request, body.kind, body.kind, valid_config(body.kind, body.config))
    return _answer_probe(request, workspace, replace(target, name=_attachable(target).endpoint()))


@route("POST", f"{TARGETS}/{{name}}/probe", "targets.write", answers=Probed, errors=(404, 409, 422, 502, 503))
def probe_again(request: ApiRequest, workspace: WorkspaceName, name: TargetName) -> Response:
    """Probe a target: the identity that it shows now."""
    target = request.context.store.targets.get(workspace, name)
    attachable_kind(target.kind)
    return _answer_probe(request, workspace, target)


@route("POST", TARGETS, "targets.write", status=201, answers=AttachedView, errors=(404, 409, 413, 422, 502, 503),
       body_type="json")  # fmt: skip
def attach(request: ApiRequest, workspace: WorkspaceName, body: NewTarget) -> Response:
    """Attach a target, or create one, depending on its kind.

    A target that is attached is probed and checked first; if that fails, nothing is stored. Without a `pin`, the first
    identity that it shows is pinned. With `exist_ok`, an existing target of that name is replaced. A target that is
    created is still being created when this returns: see its `provisioning_state`.
    """
    kind = kind_for_users(body.kind)
    asked = _target(request, body.name, body.kind, valid_config(body.kind, body.config))
    given = valid_credentials(kind, body.credentials)
    notes: list[str] = []
    if issubclass(kind, Managed):
        known = _known(request, workspace, body)
        sealed = _sealed(request, workspace, asked, given.values())
        place = local_config(request.context.store, request.context.settings) if kind.is_this_computer else {}
        asked = replace(asked, slots=body.slots, config={**place, **asked.config})
        check = cluster_check(asked.name, asked.config)
        kept = managed_targets.create(request.context.store, workspace, known, asked, sealed, body.exist_ok, check)
    else:
        target, secrets = TargetProbe(request.context.targets, workspace).accept(asked, given)
        if body.pin is not None:
            pin = attachable_kind(body.kind).read_pin(body.pin)
            target = replace(target, pin=pin, pin_confirmed=body.pin_confirmed)
        known = _known(request, workspace, body)
        if known is None or body.exist_ok:
            kept, notes = _attach(request, workspace, known, target, secrets, body.slots)
        elif _is_same(request, workspace, known, target, secrets):
            kept = known
        else:
            raise AlreadyExists(
                f"There is a target {body.name} already.", "Choose another name, or attach it anew with --update."
            )
    if known is None or body.exist_ok:
        request.context.targets.forget(workspace, kept.name)
    return json_response({**target_view(kept, request.context.store.targets.counts(workspace)), "notes": notes}, 201)


@route("POST", f"{TARGETS}/{{name}}/trust", "targets.write", answers=TargetView, errors=(404, 409, 413, 422, 502, 503),
       body_type="json")  # fmt: skip
def trust(request: ApiRequest, workspace: WorkspaceName, name: TargetName, body: Trust) -> Response:
    """Pin this identity, if the target shows it now. This ends a quarantine.

    `confirmed`: whether a person compared it.
    """
    targets = request.context.store.targets
    known = targets.get(workspace, name)
    pin = attachable_kind(known.kind).read_pin(body.pin)
    seen = TargetProbe(request.context.targets, workspace).identity(known)
    if seen is None:
        raise SpecNotSupported(f"Nothing is pinned of targets of kind {known.kind}, so that there is nothing to trust.")
    if pin != seen.pin:
        raise Conflict(f"{name} has the {seen.what} {seen.shown_as}, not the one that is to be trusted.")
    changes = {"pin": seen.pin, "pin_confirmed": body.confirmed, "quarantine": None}
    target = request.context.store.attachments.change(workspace, known, changes, request.principal.name, "target.trust")
    request.context.targets.forget(workspace, name)
    return json_response(target_view(target, targets.counts(workspace)))


@route("DELETE", f"{TARGETS}/{{name}}", "targets.write", answers=Detached, errors=(404, 409, 422))
def detach(request: ApiRequest, workspace: WorkspaceName, name: TargetName, force: bool = False) -> Response:
    """Detach a target, or delete it if it was created.

    Detaching removes the target and its credentials; files on it stay. Deleting goes on after this returns. While runs
    are active there, or other targets depend on it, `force` is needed: the runs fail and keep the logs that were
    collected, and the events of runs on a detached target say what was left there.
    """
    context, by = request.context, request.principal.name
    known = context.store.targets.get(workspace, name)
    if name in BUILT_IN:
        raise Conflict(f"{name} is this server's own target and stays.")
    if known.is_attached:
        left = context.store.attachments.remove(workspace, name, by, force, _left_at(known))
    else:
        scales = issubclass(drivers.load(known.kind), Scalable)
        left = context.store.attachments.begin_deletion(workspace, name, by, force, cancels=scales)
    for run in left:
        context.reconciler.wake(run.id)
    left = [run for run in left if run.is_final]
    context.targets.forget(workspace, name)
    context.reconciler.scale(workspace, name)
    ingest = RunIngest(context.store, context.event_bus, context.settings.log_cap_bytes)
    for run in left:
        ingest.seal_logs_of_detached(run)
        context.event_bus.publish_change(workspace, run.id)
    return json_response({"name": name, "left": [run.id for run in left]})


@route("GET", "/workspaces/{workspace}/kinds/{kind}/workspace-credential", "targets.write", answers=PublicHalf,
       errors=(404, 422))  # fmt: skip
def workspace_credential(request: ApiRequest, workspace: WorkspaceName, kind: Kind) -> Response:
    """The public half of the workspace's credential for targets of a kind. It is created at first use."""
    credential = attachable_kind(kind).workspace_credential
    if credential is None:
        raise SpecNotSupported(f"Targets of kind {kind} are not opened by a credential of the workspace.")
    return json_response({"public": _public_half(request, workspace, credential)})


def _answer_probe(request: ApiRequest, workspace: str, target: Target) -> Response:
    seen, driver = TargetProbe(request.context.targets, workspace).identity(target), _attachable(target)
    identity = None if seen is None else _identity_view(seen)
    return json_response({"identity": identity, "location": driver.location(), "endpoint": driver.endpoint()})


def _identity_view(seen: Identity) -> IdentityView:
    return {
        "pin": seen.pin,
        "shown_as": seen.shown_as,
        "what": seen.what,
        "how_to_compare": seen.how_to_compare,
        "details": dict(seen.details),
    }


def _target(request: ApiRequest, name: str, kind: str, config: Config) -> Target:
    return Target(name, kind, config, datetime.now(UTC), attached_by=request.principal.name)


def _left_at(target: Target) -> str:
    """The place at which its runs are left. Works without the driver, which may not be installed any more."""
    try:
        driver = outline(target)
    except (WindlassError, ValidationError):
        return target.name
    return driver.left_at() if isinstance(driver, Attachable) else target.name


def _attachable(target: Target) -> Attachable:
    driver = outline(target)
    assert isinstance(driver, Attachable)  # attachable_kind() refuses the others
    return driver


def _known(request: ApiRequest, workspace: str, body: NewTarget) -> Target | None:
    """The existing target of that name. Raises Conflict if it cannot be replaced."""
    if body.name in BUILT_IN:
        raise Conflict(f"{body.name} is the name of this server's own target.", "Choose another name.")
    try:
        known = request.context.store.targets.get(workspace, body.name)
    except NotFound:
        return None
    if known.kind != body.kind:
        raise Conflict(f"The target {body.name} is of kind {known.kind}, not {body.kind}.", "Choose another name.")
    return known


def _is_same(
    request: ApiRequest, workspace: str, known: Target, target: Target, given: Mapping[str, SecretStr]
) -> bool:
    """Whether the existing target equals the requested one: a request repeated after a lost response."""
    is_pinned_so = target.pin in (None, known.pin) and target.pin_confirmed == known.pin_confirmed
    if (known.attached_by, known.config) != (target.attached_by, target.config) or not is_pinned_so:
        return False
    if _attachable(target).uses_workspace_credential():
        return True
    secrets, kept = request.context.store.secrets, request.context.secret_store.of_target(workspace, known.name)
    names = {what: f"target/{known.name}/{what}" for what in given}
    return all(secrets.find(workspace, name) is not None for name in names.values()) and all(
        hmac.compare_digest(kept.get(names[what]).get_secret_value().encode(), value.get_secret_value().encode())
        for what, value in given.items()
    )


def _attach(
    request: ApiRequest,
    workspace: str,
    known: Target | None,
    target: Target,
    given: Mapping[str, SecretStr],
    slots: int | None,
) -> tuple[Target, list[str]]:
    """Probe, check and store a target. Returns it and notes for the user."""
    probe, driver, notes = TargetProbe(request.context.targets, workspace), _attachable(target), []
    target = _with_known_pin(known, target)
    if target.pin is None:
        seen = probe.identity(target)
        if seen is not None:
            target = replace(target, pin=seen.pin)
            notes.append(f"pinned the first {seen.what} that {driver.endpoint()} showed: {seen.shown_as}")
    if driver.uses_workspace_credential():
        assert driver.workspace_credential is not None
        public = _public_half(request, workspace, driver.workspace_credential)
        if given:
            probe.enroll(target, given, public)
            health = probe.check(target, {})
            notes.append(f"{driver.location()} accepts the workspace's credential now: {public}")
        else:
            health = probe.check_unless_refused(target, public)
            notes.append(f"The workspace's credential, for {driver.location()} to accept: {public}")
        given = {}
    else:
        health = probe.check(target, given)
    target = replace(target, inventory=dict(health.inventory), slots=slots or _slots(health, known))
    return _keep(request, workspace, known, target, given), notes


def _with_known_pin(known: Target | None, target: Target) -> Target:
    """The target with the pin of its endpoint, which is replaced only by an identity that a person compared."""
    if known is None or known.pin is None or (target.pin is not None and target.pin_confirmed):
        return target
    before, now = _attachable(known), _attachable(target)
    if before.endpoint() != now.endpoint():
        return target
    if target.pin not in (None, known.pin):
        raise Conflict(
            f"{now.endpoint()} must show {now.show_pin(known.pin)}, which {known.name} was attached with, and not "
            f"{now.show_pin(str(target.pin))}. Nothing was sent there.",
            f"If the machine was set up anew: windlass compute trust {known.name}",
        )
    return replace(target, pin=known.pin, pin_confirmed=known.pin_confirmed)


def _slots(health: Health, known: Target | None) -> int:
    if known is not None and known.slots is not None:
        return known.slots
    cores = health.inventory.get("cores")
    return int(min(max(LEAST_SLOTS, cores if isinstance(cores, (int, float)) else 0), MOST_SLOTS))


def _keep(
    request: ApiRequest, workspace: str, known: Target | None, target: Target, given: Mapping[str, SecretStr]
) -> Target:
    """Store the target with its secrets. They are sealed again if another request took the same version."""
    attachments = request.context.store.attachments
    for left in reversed(range(_TRIES)):
        sealed = _sealed(request, workspace, target, given)
        try:
            if known is None:
                return attachments.add(workspace, target, sealed)
            renewed = replace(target, created_at=known.created_at)
            return attachments.replace(workspace, known, renewed, sealed, _moves(known, target))
        except Conflict as e:
            if not left or "runs" in e.details:
                raise
    raise AssertionError("the last try returns or raises")


def _sealed(
    request: ApiRequest, workspace: str, target: Target, given: Mapping[str, SecretStr]
) -> list[SealedCredential]:
    values = {f"target/{target.name}/{what}": value for what, value in given.items()}
    return [SealedCredential(*each) for each in request.context.secret_store.sealed(workspace, values)]


def _moves(before: Target, after: Target) -> bool:
    """Whether runs that go on there would not be found again: another machine, account or folder is meant."""
    settings = attachable_kind(after.kind).identity_settings
    return before.pin != after.pin or any(before.config.get(key) != after.config.get(key) for key in settings)


def _public_half(request: ApiRequest, workspace: str, credential: WorkspaceCredential) -> str:
    store, secret_store, by = request.context.store, request.context.secret_store, request.principal.name
    if store.secrets.find(workspace, credential.secret) is None:
        [(name, version, sealed)] = secret_store.sealed(workspace, {credential.secret: credential.make()})
        try:
            if version == 1:
                store.secrets.put(workspace, name, version, sealed, "nobody", by)
        except Conflict:
            pass  # another request has made it in this moment, and that one counts
    return credential.public(secret_store.use(workspace, credential.secret, by, {"for": "its public half"}), workspace)
