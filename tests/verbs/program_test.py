# SPDX-License-Identifier: Apache-2.0
"""A program of ours on plain verbs that checks by itself, run under the drop-in as if it were another's."""
from programs import *


def test_program():
    said = run(EXE)
    assert re.search(r"^\d\d+ checks, 0 wrong$", said, re.M), said


main()
