"""``python -m tokenizer``."""

import sys

if __name__ == "__main__":
    try:
        from tokenizer.commands import main

        sys.exit(main())
    except KeyboardInterrupt:  # before a command runs
        print("interrupted: nothing was written", file=sys.stderr)
        sys.exit(130)
