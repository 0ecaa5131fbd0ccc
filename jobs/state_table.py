"""The entry for plain spark-submit: `spark-submit jobs/state_table.py FILE.sql [options]`.

It is `holdfast run`; whatever master and settings spark-submit was given stay in force.
"""

from __future__ import annotations

import sys

from holdfast.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["run", *sys.argv[1:]]))
