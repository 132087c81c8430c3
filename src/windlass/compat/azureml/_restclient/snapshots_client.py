"""Limits of snapshots: an alias of the SDK's module, so that code can assign SNAPSHOT_MAX_SIZE_BYTES and
SNAPSHOT_MAX_FILES.
"""

import sys

from windlass.client.submit import snapshot

sys.modules[__name__] = snapshot
