"""Coordinates of an Azure resource: subscription, resource group and name, also parsed from a resource id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Mapping

from windlass.core import names
from windlass.core.errors import InvalidRequest

MAX_PART = 260
# The fixed words of /subscriptions/S/resourceGroups/G/providers/NAMESPACE/TYPE/NAME, by their places.
_WORDS = {0: "", 1: "subscriptions", 3: "resourcegroups", 5: "providers"}
_PARTS = 9


@dataclass(frozen=True)
class Coordinates:
    """Subscription, resource group and name of a resource. An empty subscription matches any."""

    resource_group: str
    name: str
    subscription: str = ""

    @property
    def key(self) -> str:
        """A text that is the same for every spelling of the same coordinates: Azure ignores upper and lower case."""
        return "/".join((self.subscription, self.resource_group, self.name)).casefold()

    def fits(self, other: Coordinates) -> bool:
        """Whether both may mean the same resource. A subscription that one of them leaves out is not compared."""
        if self.subscription and other.subscription:
            return self.key == other.key
        return _without_subscription(self).key == _without_subscription(other).key


def checked(resource_group: str, name: str, subscription: str = "") -> Coordinates:
    """Validate coordinates: each part may be a part of a resource id."""
    _check_part("A resource group", resource_group)
    _check_part("A resource's name", name)
    if subscription:
        _check_part("A subscription", subscription)
    return Coordinates(resource_group, name, subscription)


def of_resource_id(text: str) -> Coordinates:
    """Parse a resource id."""
    parts = text.split("/")
    if len(parts) != _PARTS or any(parts[at].lower() != word for at, word in _WORDS.items()):
        raise InvalidRequest(
            f"Not the id of a resource: {ascii(text[:200])}",
            "An id looks like /subscriptions/ID/resourceGroups/GROUP/providers/NAMESPACE/TYPE/NAME",
        )
    return checked(parts[4], parts[8], parts[2])


def matching(wanted: Coordinates, known: Mapping[str, Coordinates]) -> List[str]:
    """The names of those known coordinates that `wanted` may mean. Equal ones win over those that only fit."""
    equal = [name for name, place in known.items() if place.key == wanted.key]
    return equal or [name for name, place in known.items() if place.fits(wanted)]


def _without_subscription(place: Coordinates) -> Coordinates:
    return Coordinates(place.resource_group, place.name)


def _check_part(what: str, text: str) -> None:
    if not text.strip() or len(text) > MAX_PART or "/" in text or "\n" in text or "\t" in text:
        raise InvalidRequest(f"{what} has 1 to {MAX_PART} characters on one line, and no '/': {ascii(text[:60])}")
    names.printable(what, text)
