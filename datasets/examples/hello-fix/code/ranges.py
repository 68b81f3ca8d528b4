"""Sums and counts over ranges of whole numbers that include both ends."""

import sys


def total(low, high):
    return sum(range(low, high))


def count(low, high):
    return max(0, high - low + 1)


COMMANDS = {"sum": total, "count": count}


def main(arguments):
    if len(arguments) != 3 or arguments[0] not in COMMANDS:
        print("usage: ranges.py sum|count LOW HIGH", file=sys.stderr)
        return 2
    command, low, high = arguments
    print(COMMANDS[command](int(low), int(high)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
