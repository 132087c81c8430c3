"""Say where it runs, and keep a file."""

import os
import socket

from azureml.core import Run

run = Run.get_context()
run.log("host", socket.gethostname())
os.makedirs("outputs", exist_ok=True)
with open("outputs/host.txt", "w") as file:
    file.write(socket.gethostname())
print("trained on", socket.gethostname())
