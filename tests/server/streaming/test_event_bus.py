"""The hub wakes those who follow a run, from any thread, and forgets those who left."""

from __future__ import annotations

import asyncio
import threading

from windlass.server.streaming.event_bus import Hub


def test_news_from_many_threads_wake_a_follower() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.attach(asyncio.get_running_loop())
        with hub.follow("a") as follower, hub.follow("b") as other:
            threads = [threading.Thread(target=hub.publish, args=("a",)) for _ in range(50)]
            for thread in threads:
                thread.start()
            await asyncio.wait_for(follower.wait(60), 60)
            for thread in threads:
                await asyncio.to_thread(thread.join)
            waited = asyncio.create_task(other.wait(60))
            await asyncio.sleep(0.05)
            assert not waited.done(), "news of another run wake nobody"
            hub.publish("b")
            await asyncio.wait_for(waited, 60)
        assert hub.count == 0

    asyncio.run(scenario())


def test_news_between_two_waits_are_not_lost() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.attach(asyncio.get_running_loop())
        with hub.follow("a") as follower:
            for _ in range(100):
                hub.publish("a")
                await asyncio.wait_for(follower.wait(60), 60)

    asyncio.run(scenario())


def test_publishing_without_followers_or_loop_is_free() -> None:
    hub = Hub()
    hub.publish("a")

    async def scenario() -> None:
        hub.attach(asyncio.get_running_loop())
        with hub.follow("a"):
            pass

    asyncio.run(scenario())
    hub.publish("a")
    hub.close()


def test_closing_wakes_everybody() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.attach(asyncio.get_running_loop())
        with hub.follow("a") as one, hub.follow("b") as two:
            waits = [asyncio.create_task(follower.wait(60)) for follower in (one, two)]
            await asyncio.sleep(0)
            await asyncio.to_thread(hub.close)
            await asyncio.wait_for(asyncio.gather(*waits), 60)
        assert hub.is_closed

    asyncio.run(scenario())
