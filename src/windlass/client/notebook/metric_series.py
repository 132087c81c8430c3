"""Downsampled metric series for charts and tables, bounded in memory however many values are logged."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Tuple

Point = Tuple[float, float]

MOST_BUCKETS = 300  # even


class Series:
    """Numbers in the order they were logged, downsampled: each bucket of neighbours keeps its smallest, its largest and
    the first value that is not finite. When there are too many buckets, each two are merged to one of twice the size.
    """

    def __init__(self) -> None:
        self.count = 0
        self.last = math.nan
        self._buckets: List[List[Point]] = []
        self._bucket_size = 1  # values that go into a bucket
        self._last_size = 1  # values in the last bucket

    @property
    def points(self) -> List[Point]:
        return [point for bucket in self._buckets for point in bucket]

    def add(self, x: float, y: float) -> None:
        self.count += 1
        self.last = y
        if self._last_size < self._bucket_size:
            self._buckets[-1] = _extremes([*self._buckets[-1], (x, y)])
            self._last_size += 1
            return
        self._buckets.append([(x, y)])
        self._last_size = 1
        if len(self._buckets) > MOST_BUCKETS:
            self._merge()

    def _merge(self) -> None:
        """Merge each two buckets. The last one has no partner, since the limit is even: the next values fill it."""
        self._buckets = [_extremes(sum(self._buckets[at : at + 2], [])) for at in range(0, len(self._buckets), 2)]
        self._bucket_size *= 2


def _extremes(bucket: List[Point]) -> List[Point]:
    if len(bucket) <= 2:
        return bucket
    finite = [at for at, (_, y) in enumerate(bucket) if math.isfinite(y)]
    kept = [at for at, (_, y) in enumerate(bucket) if not math.isfinite(y)][:1]
    if finite:
        kept += {min(finite, key=lambda at: bucket[at][1]), max(finite, key=lambda at: bucket[at][1])}
    return [bucket[at] for at in sorted(kept)]


class Metric:
    """The values logged under one name: for each column (one without a name, unless it is a table) a series of numbers,
    or the last text.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.columns: Dict[str, Series] = {}
        self.texts: Dict[str, str] = {}
        self._rows = 0

    @property
    def is_drawn(self) -> bool:
        """Whether a chart is drawn: some column has more than one value."""
        return any(series.count > 1 for series in self.columns.values())

    def add(self, value: Any, step: int | None = None) -> None:
        """Add a logged value: a number, a text, a list, or a dict of columns."""
        if isinstance(value, dict) and self.kind in ("row", "table"):
            lists = {name: given if isinstance(given, list) else [given] for name, given in value.items()}
        else:
            lists = {"": value if isinstance(value, list) else [value]}
        for name, items in lists.items():
            for at, item in enumerate(items):
                self._add(name, self._rows + at if step is None else step, item)
        self._rows += max((len(items) for items in lists.values()), default=0)

    def _add(self, column: str, x: int, item: Any) -> None:
        if item is None:
            item = math.nan
        if isinstance(item, bool) or not isinstance(item, (int, float)):
            self.texts[column] = str(item)
        else:
            self.columns.setdefault(column, Series()).add(float(x), float(item))
