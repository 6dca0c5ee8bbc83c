"""Files of results, one run a line, that benchmarks go on from when they were interrupted."""
import json
import os


def read_runs(paths, key_of):
    """Runs by key, of one file or several; of two with the same key the later one counts. A file that is
    not there has none, and a line that was cut off when it was written is left out."""
    done = {}
    for path in [paths] if isinstance(paths, str) else paths:
        if not os.path.exists(path):
            continue
        with open(path) as f:
            for line in f:
                try:
                    run = json.loads(line)
                    done[key_of(run)] = run
                except (ValueError, KeyError, TypeError):
                    pass
    return done


def add_run(path, run):
    with open(path, "a") as f:
        f.write(json.dumps(run) + "\n")
