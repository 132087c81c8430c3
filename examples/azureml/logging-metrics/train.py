"""Log a metric of each kind."""

import argparse
import math
import struct
import zlib

from azureml.core import Run


def write_image(path, width=32, height=32):
    """A small PNG with a gradient, without a library."""
    rows = b"".join(b"\0" + bytes(8 * ((x + y) % 32) for x in range(width)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header))
        file.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
args = parser.parse_args()

run = Run.get_context()

for epoch in range(args.epochs):
    run.log("loss", math.exp(-epoch))
    run.log_row("progress", epoch=epoch, accuracy=1 - math.exp(-epoch))

run.log("final accuracy", 0.875, description="of the last epoch")
run.log("optimizer", "sgd")
run.log_list("fibonacci", [0, 1, 1, 2, 3, 5, 8, 13])
run.log_table("sine", {"angle": [0, 90, 180], "value": [0.0, 1.0, 0.0]})
run.log("diverged", float("nan"))

write_image("gradient.png")
run.log_image("gradient", path="gradient.png")

run.log_confusion_matrix(
    "confusion",
    {
        "schema_type": "confusion_matrix",
        "schema_version": "1.0.0",
        "data": {"class_labels": ["cat", "dog"], "matrix": [[9, 1], [2, 8]]},
    },
)
print("logged", args.epochs, "epochs")
