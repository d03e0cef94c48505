"""Runs the program `bowline`, which this package carries."""

import os
import sys


def find_program():
    """Returns the path of the program: beside the script that runs, or where scripts are installed."""
    name = "bowline.exe" if os.name == "nt" else "bowline"
    beside = os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), name)
    if os.path.isfile(beside):
        return beside
    for folder in _script_folders():
        program = os.path.join(folder, name)
        if os.path.isfile(program):
            return program
    raise FileNotFoundError("the program `%s` is not where this package put it; install it again" % name)


def _script_folders():
    import sysconfig

    yield sysconfig.get_path("scripts")
    # `pip install --user`
    yield sysconfig.get_path("scripts", "nt_user" if os.name == "nt" else "posix_user")
    # `pip install --target`
    yield os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")


def main():
    """Becomes the program, with the arguments of this process; on Windows, waits for it."""
    try:
        program = find_program()
    except FileNotFoundError as error:
        sys.exit("bowline: %s" % error)
    arguments = [program] + sys.argv[1:]
    if os.name != "nt":
        os.execv(program, arguments)
    import signal
    import subprocess

    # The console interrupts the program itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(subprocess.call(arguments))
