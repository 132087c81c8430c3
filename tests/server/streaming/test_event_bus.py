"""The event bus wakes the streams that follow a run, from any thread, and drops closed ones."""

from __future__ import annotations

import asyncio
import threading

from windlass.server.streaming.event_bus import EventBus


def test_events_from_many_threads_wake_a_subscription() -> None:
    async def scenario() -> None:
        event_bus = EventBus()
        event_bus.attach(asyncio.get_running_loop())
        with event_bus.subscribe("a") as subscription, event_bus.subscribe("b") as other:
            threads = [threading.Thread(target=event_bus.publish, args=("a",)) for _ in range(50)]
            for thread in threads:
                thread.start()
            await asyncio.wait_for(subscription.wait(60), 60)
            for thread in threads:
                await asyncio.to_thread(thread.join)
            waited = asyncio.create_task(other.wait(60))
            await asyncio.sleep(0.05)
            assert not waited.done(), "an event of another run wakes no subscription"
            event_bus.publish("b")
            await asyncio.wait_for(waited, 60)
        assert event_bus.subscription_count == 0

    asyncio.run(scenario())


def test_an_event_between_two_waits_is_not_lost() -> None:
    async def scenario() -> None:
        event_bus = EventBus()
        event_bus.attach(asyncio.get_running_loop())
        with event_bus.subscribe("a") as subscription:
            for _ in range(100):
                event_bus.publish("a")
                await asyncio.wait_for(subscription.wait(60), 60)

    asyncio.run(scenario())


def test_publishing_works_without_subscriptions_and_loop() -> None:
    event_bus = EventBus()
    event_bus.publish("a")

    async def scenario() -> None:
        event_bus.attach(asyncio.get_running_loop())
        with event_bus.subscribe("a"):
            pass

    asyncio.run(scenario())
    event_bus.publish("a")
    event_bus.close()


def test_closing_wakes_all_subscriptions() -> None:
    async def scenario() -> None:
        event_bus = EventBus()
        event_bus.attach(asyncio.get_running_loop())
        with event_bus.subscribe("a") as one, event_bus.subscribe("b") as two:
            waits = [asyncio.create_task(subscription.wait(60)) for subscription in (one, two)]
            await asyncio.sleep(0)
            await asyncio.to_thread(event_bus.close)
            await asyncio.wait_for(asyncio.gather(*waits), 60)
        assert event_bus.is_closed

    asyncio.run(scenario())
