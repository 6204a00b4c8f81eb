"""Seven incidents: an agent that did damage, its recorded run, and its tool before and after the fix.

The kinds of fault of the first six are those of the Chronicle paper's Table 1; everything here is written anew.
`_common.Incident` says what each module holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.incidents import cleanup, email, invoice, payout, refund, trade, trip

if TYPE_CHECKING:
    from bench.incidents._common import Incident

ALL: tuple[Incident, ...] = (refund, invoice, trade, email, payout, cleanup, trip)
