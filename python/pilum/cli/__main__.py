"""`python -m pilum.cli`."""

from pilum.cli import main

main()
