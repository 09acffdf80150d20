"""Begin and check the exercises of a lesson: make lesson N=3 NEW=mine.py, then FILE=mine.py."""

from __future__ import annotations

import argparse
import resource
import sys
import textwrap
from pathlib import Path

from classroom.lessons import Lesson, lessons
from classroom.student import FINISHED, NOTE, UnreadableFileError, begin, check, examine


def parser() -> argparse.ArgumentParser:
    """What the program is told."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("number", nargs="?", help="the lesson's number; without it, the list")
    action = options.add_mutually_exclusive_group()
    action.add_argument("--new", type=Path, help="a new file to begin the exercises in")
    action.add_argument("--file", type=Path, help="the file to check")
    options.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # see student.check
    return options


def overview() -> str:
    """The list of lessons."""
    lines = [f"  {n:2}  {lesson.title}" for n, lesson in lessons().items()]
    return "\n".join(["The lessons:", "", *lines, "", "To see one: make lesson N=1"])


def about(lesson: Lesson) -> str:
    """What a lesson is, and what there is to do."""
    names = ", ".join(exercise.name for exercise in lesson.exercises())
    return "\n".join(
        [
            f"Lesson {lesson.number}: {lesson.title}",
            "",
            *(f"  {name}: {words}" for name, words in lesson.front().items()),
            f"  Exercises: {names}",
            "",
            f"To run it:           python demos/walkthroughs/{lesson.page.name}",
            f"To begin exercises:  make lesson N={lesson.number} NEW=mine.py",
            f"To check them:       make lesson N={lesson.number} FILE=mine.py",
        ]
    )


def note(text: str) -> None:
    """Tell the process that waits for this one what is going on."""
    print(f"{NOTE}{text}", file=sys.stderr, flush=True)


MEMORY = 4 * 2**30  # bytes, for a loop that fills a list without end


def report(lesson: Lesson, path: Path) -> int:
    """Judge a file in this process and print what there is to say; 0 if all is right."""
    print(f"Lesson {lesson.number}: {lesson.title}\n{path}")
    try:
        verdicts = examine(lesson.exercises(), path, note=note)
    except UnreadableFileError as error:
        print(f"\n{error}")
        return 1
    for verdict in verdicts:
        first, *others = verdict.lines
        print(f"\n{verdict.name}: {first}")
        for line in others:
            print(
                textwrap.fill(line, 96, initial_indent="  ", subsequent_indent="  ")
                if line.startswith(("Hint", "It looks", "In this"))
                else f"  {line}".rstrip()
            )
    passed = sum(verdict.passed for verdict in verdicts)
    if passed < len(verdicts):
        print(f"\n{passed} of {len(verdicts)} exercises are right.")
        return 1
    follows = f" Next: make lesson N={lesson.number + 1}" if lesson.number + 1 in lessons() else ""
    print(f"\nAll {passed} exercises are right.{follows}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Do what was asked for; 0 if all is right, 1 if a student's file is not, 2 for bad options."""
    options = parser().parse_args(arguments)
    known = lessons()
    if not options.number:
        if options.new or options.file:
            parser().error("which lesson? Add N=, from 1 to " + str(max(known)))
        print(overview())
        return 0
    number = options.number
    if not (number.isdecimal() and int(number) in known):
        parser().error(f"there is no lesson {number!r}; they go from 1 to {max(known)}")
    lesson = known[int(number)]
    if options.new:
        try:
            begin(lesson, options.new)
        except UnreadableFileError as error:
            print(error, file=sys.stderr)
            return 2
        print(f"{options.new} is there. Write its functions, then:")
        print(f"  make lesson N={lesson.number} FILE={options.new}")
        return 0
    if options.file:
        if not options.here:
            return check(lesson, options.file)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        status = report(lesson, options.file)
        sys.stdout.flush()
        note(FINISHED)
        return status
    print(about(lesson))
    return 0


if __name__ == "__main__":
    sys.exit(main())
