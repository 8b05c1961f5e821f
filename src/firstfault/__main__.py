# SPDX-License-Identifier: Apache-2.0
"""`python -m firstfault`: the command line, for where the script `firstfault` is not on the path."""

from firstfault.cli.main import main

if __name__ == "__main__":
    main()
