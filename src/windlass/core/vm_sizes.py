"""Azure's sizes of virtual machines, as far as public code asks for them: cores, memory and GPUs of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional

_PREFIX = "standard_"


@dataclass(frozen=True)
class VmSize:
    name: str
    cores: int
    memory_gb: float
    gpus: int = 0


# Name without "Standard_", cores, GB of memory, GPUs.
_TABLE = """
A1_v2 1 2 0           A2_v2 2 4 0           A4_v2 4 8 0           A8_v2 8 16 0
D1 1 3.5 0            D2 2 7 0              D3 4 14 0             D4 8 28 0
D11 2 14 0            D12 4 28 0            D13 8 56 0            D14 16 112 0
D1_v2 1 3.5 0         D2_v2 2 7 0           D3_v2 4 14 0          D4_v2 8 28 0          D5_v2 16 56 0
D11_v2 2 14 0         D12_v2 4 28 0         D13_v2 8 56 0         D14_v2 16 112 0
DS1_v2 1 3.5 0        DS2_v2 2 7 0          DS3_v2 4 14 0         DS4_v2 8 28 0         DS5_v2 16 56 0
DS11_v2 2 14 0        DS12_v2 4 28 0        DS13_v2 8 56 0        DS14_v2 16 112 0      DS15_v2 20 140 0
D2_v3 2 8 0           D4_v3 4 16 0          D8_v3 8 32 0          D16_v3 16 64 0        D32_v3 32 128 0
D2s_v3 2 8 0          D4s_v3 4 16 0         D8s_v3 8 32 0         D16s_v3 16 64 0       D32s_v3 32 128 0
E2_v3 2 16 0          E4_v3 4 32 0          E8_v3 8 64 0          E4s_v3 4 32 0         E8s_v3 8 64 0
E4ds_v4 4 32 0        E8ds_v4 8 64 0        E16ds_v4 16 128 0
F2s_v2 2 4 0          F4s_v2 4 8 0          F8s_v2 8 16 0         F16s_v2 16 32 0       F32s_v2 32 64 0
F64s_v2 64 128 0      F72s_v2 72 144 0
NC6 6 56 1            NC12 12 112 2         NC24 24 224 4         NC24r 24 224 4
NC6s_v2 6 112 1       NC12s_v2 12 224 2     NC24s_v2 24 448 4
NC6s_v3 6 112 1       NC12s_v3 12 224 2     NC24s_v3 24 448 4     NC24rs_v3 24 448 4
NC4as_T4_v3 4 28 1    NC8as_T4_v3 8 56 1    NC16as_T4_v3 16 110 1 NC64as_T4_v3 64 440 4
NC24ads_A100_v4 24 220 1                    NC48ads_A100_v4 48 440 2                    NC96ads_A100_v4 96 880 4
ND6s 6 112 1          ND12s 12 224 2        ND24s 24 448 4        ND40rs_v2 40 672 8    ND96asr_v4 96 900 8
NV6 6 56 1            NV12 12 112 2         NV24 24 224 4         NV12s_v3 12 112 1
"""


def _read(table: str) -> Dict[str, VmSize]:
    cells = iter(table.split())
    rows = zip(cells, cells, cells, cells)
    return {
        name.lower(): VmSize(f"Standard_{name}", int(cores), float(memory), int(gpus))
        for name, cores, memory, gpus in rows
    }


SIZES: Dict[str, VmSize] = _read(_TABLE)


def find(name: str) -> Optional[VmSize]:
    """The size of that name, in any spelling: STANDARD_D2_V2, Standard_D2_v2 and d2_v2 are the same."""
    key = name.strip().lower()
    return SIZES.get(key[len(_PREFIX) :] if key.startswith(_PREFIX) else key)
