"""Hypothesis measures no time: how long an example takes says what else the machine does."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):  # the environments of single frameworks have none
    from hypothesis import settings

    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")
