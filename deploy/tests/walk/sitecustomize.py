"""Note which functions of the checkout a process calls. Python imports this before anything else.

A file `mark-<name>` in $WALK_DIR ends a stretch: the process' command and what it called go, in
their order, to `<name>-<pid>.json`. The profiler sees a thread from its first call on.
"""

import json
import os
import sys
import threading
import time

ROOT = os.environ["WALK_ROOT"] + os.sep
FOLDER = os.environ["WALK_DIR"]
called: dict[tuple[str, str], int] = {}  # how many lines the function has


def note(frame, event, _):
    if event == "call":
        code = frame.f_code
        # A comprehension or a lambda is part of the function that it stands in.
        if code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            name = code.co_filename.removeprefix(ROOT), code.co_qualname
            if name not in called:
                last = max(line or 0 for _, _, line in code.co_lines())
                called[name] = last - code.co_firstlineno + 1


def watch():
    written = set()
    while True:
        for name in os.listdir(FOLDER):
            if name.startswith("mark-") and name not in written:
                written.add(name)
                stretch = [(*name, lines) for name, lines in list(called.items())]
                called.clear()
                target = os.path.join(FOLDER, f"{name.removeprefix('mark-')}-{os.getpid()}.json")
                with open(target + ".new", "w") as file:
                    json.dump([" ".join(sys.orig_argv), stretch], file)
                os.rename(target + ".new", target)
        time.sleep(0.02)


threading.Thread(target=watch, daemon=True).start()
threading.setprofile(note)
sys.setprofile(note)
