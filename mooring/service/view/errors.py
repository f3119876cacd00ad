"""Errors of a service that a command does not have."""

from __future__ import annotations

from mooring.errors import MooringError


class NotYetError(MooringError):
    """Asked for what is not there, or not there yet."""


class ChangedError(MooringError):
    """Asked for something that was seen, and is another by now."""


class BusyError(MooringError):
    """As much is being worked on as there may be at a time."""
