"""Run the lessons as notebooks and write build/lessons/: make notebooks, or with ARGS='1 3'."""

import sys

from classroom.notebooks import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
