"""Equal calls that are made at once: made once, whoever leaves."""

import asyncio

import pytest

from conductor_plugin.in_flight import once


class Shop:
    """What was paid for so far, and how often; paying takes a moment."""

    def __init__(self):
        self.stored, self.flying, self.paid = {}, {}, 0

    async def find(self, key):
        await asyncio.sleep(0)
        return self.stored.get(key)

    async def pay(self, key):
        self.paid += 1
        number = self.paid
        await asyncio.sleep(0.01)
        self.stored[key] = number
        return number

    async def ask(self, key="a"):
        return await once(self.flying, key, lambda: self.find(key), lambda: self.pay(key))


async def test_all_who_ask_at_once_share_one_call():
    shop = Shop()
    assert await asyncio.gather(*(shop.ask() for _ in range(5)), shop.ask("b")) == [1, 1, 1, 1, 1, 2]
    assert (await shop.ask(), shop.paid, shop.flying) == (1, 2, {})


async def test_where_whoever_pays_is_cancelled_one_of_the_others_pays():
    shop = Shop()
    first, *others = (asyncio.create_task(shop.ask()) for _ in range(4))
    await asyncio.sleep(0.005)
    first.cancel()
    assert await asyncio.gather(*others) == [2, 2, 2]
    assert (first.cancelled(), shop.paid) == (True, 2)


async def test_one_who_waits_may_leave():
    shop = Shop()
    first, second = asyncio.create_task(shop.ask()), asyncio.create_task(shop.ask())
    await asyncio.sleep(0.005)
    second.cancel()
    assert await first == 1
    with pytest.raises(asyncio.CancelledError):
        await second
    assert shop.paid == 1


async def test_a_failure_is_everybodys_and_kept_by_nobody():
    shop = Shop()

    async def fail():
        await asyncio.sleep(0.01)
        raise ValueError("no")

    asked = [once(shop.flying, "a", lambda: shop.find("a"), fail) for _ in range(3)]
    failures = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(failure) for failure in failures] == ["no"] * 3
    assert await shop.ask() == 1
