"""Catalogue of VM sizes: Azure's, as far as public code uses them, and sizes that a server's owner declares.

A price is what an hour cost in US dollars by Azure's public list (Linux, East US), rounded: good for comparisons, not
for bills. Families are those that Azure's quotas count by.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional

from windlass.core.errors import InvalidRequest

OWN_FAMILY = "Own Sizes"
# Share of the price that a low-priority node costs.
LOW_PRIORITY_SHARE = 0.2
_PREFIX = "standard_"


@dataclass(frozen=True)
class VmSize:
    name: str
    cores: int
    memory_gb: float
    gpus: int = 0
    family: str = OWN_FAMILY
    price: Optional[float] = None  # US dollars per hour; None: not known

    def price_per_hour(self, is_low_priority: bool = False) -> Optional[float]:
        return self.price if self.price is None or not is_low_priority else self.price * LOW_PRIORITY_SHARE


# A family, then name without "Standard_", cores, GB of memory, GPUs and price of each of its sizes.
_TABLE = """
Standard Av2 Family:
A1_v2 1 2 0 0.043        A2_v2 2 4 0 0.091        A4_v2 4 8 0 0.191        A8_v2 8 16 0 0.40
Standard D Family:
D1 1 3.5 0 0.077         D2 2 7 0 0.154           D3 4 14 0 0.308          D4 8 28 0 0.616
D11 2 14 0 0.195         D12 4 28 0 0.39          D13 8 56 0 0.78          D14 16 112 0 1.542
Standard Dv2 Family:
D1_v2 1 3.5 0 0.073      D2_v2 2 7 0 0.146        D3_v2 4 14 0 0.293       D4_v2 8 28 0 0.585
D5_v2 16 56 0 1.17       D11_v2 2 14 0 0.185      D12_v2 4 28 0 0.37       D13_v2 8 56 0 0.741
D14_v2 16 112 0 1.482
Standard DSv2 Family:
DS1_v2 1 3.5 0 0.073     DS2_v2 2 7 0 0.146       DS3_v2 4 14 0 0.293      DS4_v2 8 28 0 0.585
DS5_v2 16 56 0 1.17      DS11_v2 2 14 0 0.185     DS12_v2 4 28 0 0.37      DS13_v2 8 56 0 0.741
DS14_v2 16 112 0 1.482   DS15_v2 20 140 0 1.852
Standard Dv3 Family:
D2_v3 2 8 0 0.096        D4_v3 4 16 0 0.192       D8_v3 8 32 0 0.384       D16_v3 16 64 0 0.768
D32_v3 32 128 0 1.536
Standard DSv3 Family:
D2s_v3 2 8 0 0.096       D4s_v3 4 16 0 0.192      D8s_v3 8 32 0 0.384      D16s_v3 16 64 0 0.768
D32s_v3 32 128 0 1.536
Standard Ev3 Family:
E2_v3 2 16 0 0.126       E4_v3 4 32 0 0.252       E8_v3 8 64 0 0.504
Standard ESv3 Family:
E4s_v3 4 32 0 0.252      E8s_v3 8 64 0 0.504
Standard EDSv4 Family:
E4ds_v4 4 32 0 0.288     E8ds_v4 8 64 0 0.576     E16ds_v4 16 128 0 1.152
Standard FSv2 Family:
F2s_v2 2 4 0 0.085       F4s_v2 4 8 0 0.169       F8s_v2 8 16 0 0.338      F16s_v2 16 32 0 0.677
F32s_v2 32 64 0 1.353    F64s_v2 64 128 0 2.706   F72s_v2 72 144 0 3.045
Standard NC Family:
NC6 6 56 1 0.90          NC12 12 112 2 1.80       NC24 24 224 4 3.60       NC24r 24 224 4 3.96
Standard NCSv2 Family:
NC6s_v2 6 112 1 2.07     NC12s_v2 12 224 2 4.14   NC24s_v2 24 448 4 8.28
Standard NCSv3 Family:
NC6s_v3 6 112 1 3.06     NC12s_v3 12 224 2 6.12   NC24s_v3 24 448 4 12.24  NC24rs_v3 24 448 4 13.46
Standard NCASv3_T4 Family:
NC4as_T4_v3 4 28 1 0.526    NC8as_T4_v3 8 56 1 0.752
NC16as_T4_v3 16 110 1 1.204 NC64as_T4_v3 64 440 4 4.352
Standard NCADS_A100_v4 Family:
NC24ads_A100_v4 24 220 1 3.673    NC48ads_A100_v4 48 440 2 7.346    NC96ads_A100_v4 96 880 4 14.692
Standard NDS Family:
ND6s 6 112 1 2.07        ND12s 12 224 2 4.14      ND24s 24 448 4 8.28
Standard NDSv2 Family:
ND40rs_v2 40 672 8 22.03
Standard NDASv4_A100 Family:
ND96asr_v4 96 900 8 27.197
Standard NV Family:
NV6 6 56 1 1.14          NV12 12 112 2 2.28       NV24 24 224 4 4.56
Standard NVSv3 Family:
NV12s_v3 12 112 1 1.14
"""


def _read(table: str) -> Iterator[VmSize]:
    family = ""
    for line in table.strip().splitlines():
        if line.endswith(":"):
            family = line[:-1]
            continue
        cells = iter(line.split())
        for name, cores, memory, gpus, price in zip(cells, cells, cells, cells, cells):
            yield VmSize(f"Standard_{name}", int(cores), float(memory), int(gpus), family, float(price))


def _key(name: str) -> str:
    key = name.strip().lower()
    return key[len(_PREFIX) :] if key.startswith(_PREFIX) else key


SIZES: Dict[str, VmSize] = {_key(size.name): size for size in _read(_TABLE)}
_own: Dict[str, VmSize] = {}


def declare(sizes: Mapping[str, VmSize]) -> None:
    """Set the sizes of this server's owner, by name, instead of those declared before. They override sizes of Azure."""
    _own.clear()
    _own.update({_key(name): size for name, size in sizes.items()})


def every_size() -> List[VmSize]:
    return list({**SIZES, **_own}.values())


def find(name: str) -> Optional[VmSize]:
    """The size of that name, in any spelling: STANDARD_D2_V2, Standard_D2_v2 and d2_v2 are the same."""
    return _own.get(_key(name)) or SIZES.get(_key(name))


def node_price(config: Mapping[str, Any]) -> Optional[float]:
    """The price of a node of a target with these settings, in US dollars per hour; None if it is not known."""
    size = find(str(config.get("vm_size") or ""))
    return None if size is None else size.price_per_hour(config.get("vm_priority") == "lowpriority")


def require(name: str) -> VmSize:
    """The size of that name. InvalidRequest if there is none, with similar names in its hint."""
    found = find(name)
    if found is None:
        near = _near(_key(name), {key: size.name for key, size in {**SIZES, **_own}.items()})
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise InvalidRequest(f"There is no VM size {name!r:.60}.", f"{hint}All sizes: windlass compute sizes")
    return found


def families() -> List[str]:
    return list(dict.fromkeys(size.family for size in every_size()))


def require_family(name: str) -> str:
    """The family of that name, in any spelling: Dv2, "Standard Dv2 Family", standardDv2Family."""
    known = {_family_key(family): family for family in families()}
    if _family_key(name) in known:
        return known[_family_key(name)]
    size = find(name)
    if size is not None:
        raise InvalidRequest(f"{size.name} is a VM size, not a family.", f'Its family is "{size.family}".')
    near = _near(_family_key(name), known)
    hint = f'Did you mean "{near[0]}"?' if near else "windlass quota list --all lists the families."
    raise InvalidRequest(f"There is no family of VM sizes {name!r:.60}.", hint)


def _family_key(name: str) -> str:
    return re.sub(r"standard|family|vcpus|[\s_\-]", "", name.lower())


def _near(key: str, known: Mapping[str, str]) -> List[str]:
    from difflib import get_close_matches

    return [known[each] for each in get_close_matches(key, list(known), 2, 0.6)]
