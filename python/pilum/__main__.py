"""`python -m pilum`: the command without its script."""

from pilum.cli import main

main()
