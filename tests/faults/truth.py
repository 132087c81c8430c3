"""The program of the crash tests: it tells the truth about itself in a ledger that no victim can touch.

Its log, metrics and output are a function of the number of lines, so that the test knows them to the byte.
Arguments: ledger folder, number of lines, exit code, mode (run | sleep | stubborn | again: only its first attempt
sleeps).
"""

import os
import signal
import sys
import time

ledger, lines, code, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]


def tell(word: str) -> None:
    with open(os.path.join(ledger, "ledger.txt"), "a") as file:
        file.write(f"{word} {os.environ['WINDLASS_ATTEMPT']} {os.getpid()}\n")
        file.flush()
        os.fsync(file.fileno())


def tell_failure(kind: type, error: BaseException, trace: object) -> None:
    tell("exit1")  # that is how Python ends then
    sys.__excepthook__(kind, error, trace)  # type: ignore[arg-type]


sys.excepthook = tell_failure


def reach(point: str) -> None:
    path = os.path.join(ledger, point)
    if not os.path.exists(path):
        return
    os.rename(path, path + ".reached")
    while not os.path.exists(path + ".go"):
        time.sleep(0.005)


if mode == "stubborn":  # before anybody hears of us, and could ask us to end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
tell("start")
folder = os.path.join(os.environ["WINDLASS_RUN_FOLDER"], "metrics")
os.makedirs(folder, exist_ok=True)
metrics = open(os.path.join(folder, "main.jsonl"), "ab", buffering=0)  # noqa: SIM115
for number in range(lines):
    os.write(1, b"line %06d \xc3\xa4\xff\x00\n" % number)
    metrics.write(b'{"n":"value","v":%d,"t":%d.5}\n' % (number, 1790000000 + number))
    if number == lines // 2:
        reach("F12")
        os.write(1, b"half a line and half a character \xc3")
        reach("F13")
        os.write(1, b"\xa4 whole\n")
        with open(os.path.join(folder, "half.jsonl"), "ab", buffering=0) as file:
            file.write(b'{"n":"half","v":')
            reach("F14")
            file.write(b'1,"t":1790000000.0}\n')
os.makedirs("outputs", exist_ok=True)
with open("outputs/result.bin", "wb") as result:
    result.write(bytes(range(256)) * lines)
if mode == "again" and os.environ["WINDLASS_ATTEMPT"] != "1":
    mode = "run"
if mode == "again":
    tell("waits")
while mode != "run":
    time.sleep(0.05)
tell(f"exit{code}")
sys.exit(code)
