"""Refusals of one object: one write at a time, and the latest one stays."""

import asyncio
from types import SimpleNamespace

from virtual_loop import run_in_virtual_time

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.resources import CONFIG_MAPS
from windlass.backends.kubernetes.gangs.gang import WAITING
from windlass.backends.kubernetes.status.refusals import INVALID, Refusal, Refusals


class SlowApi:
    """An API server whose first answer takes a second; `reasons`: what the object said, in this order."""

    def __init__(self):
        self.reasons, self.under_way = [], 0

    async def patch(self, _resource, _namespace, _name, body, **_options):
        [condition] = [each for each in body["status"]["conditions"] if each["type"] == "Accepted"]
        self.under_way += 1
        assert self.under_way == 1
        await asyncio.sleep(0.0 if self.reasons else 1.0)
        self.under_way -= 1
        self.reasons.append(condition["reason"])


def refused(*reasons):
    """The reasons that an object says after refusals half a second apart."""

    async def story():
        api, troubles = SlowApi(), []
        redaction = SimpleNamespace(message=lambda text, _namespace: text)
        refusals = Refusals(api, redaction, None, lambda: 0, troubles.append, 200)
        for reason in reasons:
            refusals.refuse(Refusal(REFERENCE, {"metadata": {}}, f"because it is {reason}", reason))
            await asyncio.sleep(0.5)
        await asyncio.sleep(60)
        await refusals.close()
        assert troubles == []
        assert not refusals._refused
        assert not refusals._under_way
        return api.reasons

    return run_in_virtual_time(story())


REFERENCE = ObjectReference(CONFIG_MAPS, "team", "digits", "uid-1")


def test_a_refusal_is_written_after_an_earlier_one_whose_answer_is_slow():
    assert refused(WAITING, INVALID) == [WAITING, INVALID]
    assert refused(INVALID, WAITING) == [INVALID, WAITING]


def test_a_refusal_alone_is_written_once():
    assert refused(INVALID) == [INVALID]
    assert refused(WAITING) == [WAITING]
