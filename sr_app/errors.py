"""What can go wrong by the user's hand, as a tree.

    SrAppError
    ├── ConfigError      a setting is out of range or contradicts another
    ├── DataError        a folder, set or pair of pictures is not what was expected
    ├── PictureError     a picture file can't be read, written or held
    ├── CheckpointError  a checkpoint is missing, damaged, or of another network
    ├── TrainingError    a run can't go on (the numbers went bad)
    └── ParallelError    ranks don't meet, or one has failed

The command line tells any of these in one line and ends with status 2. Everything else is a bug
and keeps its traceback. A message says what, where, what was found, and how to mend it.
"""


class SrAppError(Exception):
    """The root of all errors that are told without a traceback."""


class ConfigError(SrAppError):
    """A setting is out of range or contradicts another; names the key."""


class DataError(SrAppError):
    """A folder, set or pair of pictures is not what was expected; names the folder or file."""


class PictureError(SrAppError):
    """A picture file can't be read, written or held; names the file."""


class CheckpointError(SrAppError):
    """A checkpoint is missing, damaged, or of another network; names the file."""


class TrainingError(SrAppError):
    """A run can't go on; names the step and the last good checkpoint."""


class ParallelError(SrAppError):
    """Ranks don't meet, or one has failed; names it, with its last lines."""
