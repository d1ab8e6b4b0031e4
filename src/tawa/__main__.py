"""Makes `python -m tawa` the same as the command `tawa`."""

from tawa.cli import main

if __name__ == "__main__":
    main()
