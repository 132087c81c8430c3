"""Wait a moment."""

import time

print("Wait for a second..")
time.sleep(1)
print("Done waiting")
