"""Every kind of metric that a script can log."""

import math
import pathlib
import struct
import zlib

from windlass import Run

run = Run.get_context()

# The same name again and again is a series.
for step in range(20):
    run.log("loss", math.exp(-step / 5))

run.log("accuracy", 0.93)
run.log_list("fibonacci", [1, 1, 2, 3, 5, 8], description="a list at once")
for angle in range(0, 360, 45):
    run.log_row("circle", angle=angle, sine=math.sin(math.radians(angle)))
run.log_table("by class", {"class": ["cat", "dog"], "precision": [0.91, 0.88], "recall": [0.87, 0.9]})
run.log_confusion_matrix(
    "confusion",
    {
        "schema_type": "confusion_matrix",
        "schema_version": "v1",
        "data": {"class_labels": ["cat", "dog"], "matrix": [[87, 13], [10, 90]]},
    },
)


def write_png(path, width, height, grey):
    """A picture without any library: eight bits of grey per pixel."""
    rows = b"".join(b"\0" + bytes(grey(x, y) for x in range(width)) for y in range(height))
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    png = b"\x89PNG\r\n\x1a\n"
    for name, data in chunks:
        png += struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    path.write_bytes(png)


picture = pathlib.Path("ripple.png")
write_png(picture, 64, 64, lambda x, y: int(127 + 127 * math.sin(math.hypot(x - 32, y - 32))))
run.log_image("ripple", path=str(picture))

run.tag("stage", "example")
run.add_properties({"dataset": "made up"})
print("logged every kind of metric")
