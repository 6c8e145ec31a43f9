"""``python -m tokenizer``."""

import sys

from tokenizer.commands import main

if __name__ == "__main__":
    sys.exit(main())
