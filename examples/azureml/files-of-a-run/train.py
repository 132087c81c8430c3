"""Keep files with the run: by ./outputs, by name, and a whole folder."""

import os

from azureml.core import Run

run = Run.get_context()

os.makedirs("outputs", exist_ok=True)
with open("outputs/result.txt", "w") as file:
    file.write("forty-two")

with open("notes.txt", "w") as file:
    file.write("by name")
run.upload_file(name="extra/notes.txt", path_or_stream="notes.txt")

os.makedirs("plots/inner", exist_ok=True)
for number in range(3):
    with open(f"plots/inner/{number}.csv", "w") as file:
        file.write(f"x,y\n{number},{number * number}\n")
run.upload_folder(name="plots", path="plots")
