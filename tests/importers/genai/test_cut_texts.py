"""An error's text that was cut in the midst of a character: the call fails in the replay as it did, in its words."""

from __future__ import annotations

import openai
import pytest

from otel_replay import payload
from otel_replay.errors import Unservable
from otel_replay.importers.genai._call import Fault
from otel_replay.importers.genai._outcome import raised

HALF = "half of it \ud83d is gone"


@pytest.mark.parametrize(
    ("kind", "vendor", "made"),
    [
        ("ValueError", "", ValueError),
        ("RateLimitError", "openai", openai.RateLimitError),
        ("openai.BadRequestError", "openai", openai.BadRequestError),
    ],
)
def test_the_message_comes_back(kind: str, vendor: str, made: type[Exception]) -> None:
    fault = payload.decode(raised(Fault(kind, HALF), vendor, []).value)
    assert type(fault) is made
    assert str(fault) == HALF


def test_a_class_whose_name_was_cut_is_refused_by_name() -> None:
    with pytest.raises(Unservable, match="is not there"):
        payload.decode(raised(Fault("app.errors.Cut\ud83d", HALF), "", []).value)
