"""Error classes: the tree of all errors that the server, the SDK and the command line raise.

WindlassError
├── InvalidRequest            the caller asked for something that cannot be
│   ├── CredentialsNeeded     credentials are missing that a person can be asked for; `details["fields"]` names them
│   ├── NotFound
│   ├── AlreadyExists
│   ├── Conflict              the thing is not in the state that the call needs
│   ├── SnapshotIncomplete    the server lacks some files of the snapshot; `details["missing"]` lists their digests
│   ├── TooLarge              a limit was passed; the message names it
│   └── SpecNotSupported      this kind of target cannot do that
├── Denied                    no or wrong credentials, or not allowed
├── TooMany                   slow down (transient)
├── StorageFull               the disk of the server is full (transient)
├── TargetError
│   ├── TargetUnreachable     there was no answer; nothing is known (transient)
│   │   ├── LoginRefused      the machine is there and does not let us in (transient: that may be fixed)
│   │   └── TargetQuarantined the machine is not the one that was attached: nothing is sent (until its owner looks)
│   ├── NoCapacity            no room now (transient)
│   └── TargetRejected        the backend said no
├── ServerUnavailable         seen by clients: no server there (transient)
└── InternalError             a bug of ours; the server's log has the traceback

Each class has a stable `code`, which crosses the wire, and `transient`: whether the same call may succeed later.
"""

from __future__ import annotations

from typing import Any, ClassVar, Dict, Optional, Type


class WindlassError(Exception):
    """Base of all errors that we raise: a message for the user, a hint (what to do next), a stable code."""

    code: ClassVar[str] = "error"
    transient: ClassVar[bool] = False

    def __init__(self, message: str, hint: str = "", details: Optional[Dict[str, Any]] = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: Dict[str, Any] = details or {}

    @property
    def text(self) -> str:
        """The message and the hint."""
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def __str__(self) -> str:
        return self.text

    def to_wire(self) -> Dict[str, Any]:
        return {
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
            "transient": self.transient,
            "details": self.details,
        }


class InvalidRequest(WindlassError):
    code = "invalid_request"


class CredentialsNeeded(InvalidRequest):
    """`details["fields"]` names the fields of the credentials that are missing."""

    code = "credentials_needed"


class NotFound(InvalidRequest):
    code = "not_found"


class AlreadyExists(InvalidRequest):
    code = "already_exists"


class Conflict(InvalidRequest):
    code = "conflict"


class SnapshotIncomplete(InvalidRequest):
    code = "snapshot_incomplete"


class TooLarge(InvalidRequest):
    code = "too_large"


class SpecNotSupported(InvalidRequest):
    code = "not_supported"


class Denied(WindlassError):
    code = "denied"


class TooMany(WindlassError):
    code = "too_many"
    transient = True


class StorageFull(WindlassError):
    code = "storage_full"
    transient = True


class TargetError(WindlassError):
    code = "target_error"


class TargetUnreachable(TargetError):
    code = "target_unreachable"
    transient = True


class LoginRefused(TargetUnreachable):
    code = "login_refused"


class TargetQuarantined(TargetUnreachable):
    code = "target_quarantined"


class NoCapacity(TargetError):
    code = "no_capacity"
    transient = True


class TargetRejected(TargetError):
    code = "target_rejected"


class ServerUnavailable(WindlassError):
    code = "server_unavailable"
    transient = True


class InternalError(WindlassError):
    code = "internal_error"


def _tree(root: Type[WindlassError]) -> Dict[str, Type[WindlassError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


BY_CODE: Dict[str, Type[WindlassError]] = _tree(WindlassError)


def from_wire(body: Dict[str, Any]) -> WindlassError:
    """Rebuild an error that crossed the wire. An unknown code, from a newer server, becomes the base class."""
    kind = BY_CODE.get(str(body.get("code")), WindlassError)
    details = body.get("details")
    return kind(str(body.get("message", "")), str(body.get("hint", "")), details if isinstance(details, dict) else None)
