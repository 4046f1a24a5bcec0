"""The tests. While they are imported the garbage collector rests: see `pytest_collection_finish`."""

import gc

# The modules of all tests have a million objects that stay. A collection looks at each of them, which takes a
# third of a second; there are dozens while modules are imported.
gc.disable()
