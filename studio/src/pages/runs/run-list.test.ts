import { afterEach, beforeEach, expect, it, vi } from "vitest";

import type { Run } from "@/api/queries";
import { RunList, type RunPage } from "./run-list";

/** Runs in a list, newest first, in pages by the number of the last one, as the server gives them. */
class Source {
  runs: Run[] = [];
  asked: string[] = [];

  constructor(count: number) {
    for (let number = 1; number <= count; number++) this.add(number);
  }

  add(number: number, state = "Completed"): void {
    this.runs.unshift({ id: `run_${number}`, number, state } as Run);
  }

  readonly fetch = async (cursor: string, limit: number): Promise<RunPage> => {
    this.asked.push(cursor);
    const after = this.runs.filter(({ number }) => !cursor || number < Number(cursor));
    const runs = after.slice(0, limit).map((run) => ({ ...run }));
    return { runs, next: after.length > limit ? String(runs.at(-1)!.number) : null };
  };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const settle = () => vi.advanceTimersByTimeAsync(1000);
const numbers = (list: RunList) => list.getState().rows.map(({ number }) => number);

async function open(source: Source): Promise<RunList> {
  const list = new RunList(source.fetch);
  list.open();
  await settle();
  return list;
}

it("loads ahead of what is visible, and to the end as it is scrolled", async () => {
  const list = await open(new Source(10_000));
  const loaded = list.getState().rows.length;
  expect(loaded).toBeGreaterThanOrEqual(1500);
  expect(list.getState().isComplete).toBe(false);
  while (!list.getState().isComplete) {
    const { length } = list.getState().rows;
    list.look({ first: length - 30, last: length - 1, isAtTop: false });
    await settle();
  }
  expect(numbers(list)).toEqual(Array.from({ length: 10_000 }, (_, at) => 10_000 - at));
});

it("replaces a changed run in place and asks only for its page", async () => {
  const source = new Source(3000);
  const list = await open(source);
  list.look({ first: 700, last: 730, isAtTop: false });
  await settle();
  source.asked = [];
  const row = list.getState().rows[710]!;
  source.runs.find(({ id }) => id === row.id)!.state = "Failed";
  list.changed([row.id]);
  await settle();
  expect(list.getState().rows[710]).toMatchObject({ id: row.id, state: "Failed" });
  expect(source.asked).toHaveLength(1);
});

it("fetches a changed run out of sight when it comes into sight", async () => {
  const source = new Source(3000);
  const list = await open(source);
  source.asked = [];
  const row = list.getState().rows[1200]!;
  source.runs.find(({ id }) => id === row.id)!.state = "Failed";
  list.changed([row.id]);
  await settle();
  expect(source.asked).toEqual([]);
  list.look({ first: 1190, last: 1220, isAtTop: false });
  await settle();
  expect(list.getState().rows[1200]!.state).toBe("Failed");
});

it("shows new runs at the top at once, or counts them when scrolled down", async () => {
  const source = new Source(3000);
  const list = await open(source);
  source.add(3001, "Running");
  list.changed(["run_3001"]);
  await settle();
  expect(numbers(list).slice(0, 2)).toEqual([3001, 3000]);
  list.look({ first: 400, last: 430, isAtTop: false });
  source.add(3002);
  source.add(3003);
  list.changed(["run_3002", "run_3003"]);
  await settle();
  expect(list.getState().newRuns).toBe(2);
  expect(numbers(list)[0]).toBe(3001);
  list.showNew();
  await settle();
  expect(list.getState().newRuns).toBe(0);
  expect(numbers(list).slice(0, 3)).toEqual([3003, 3002, 3001]);
  expect(new Set(numbers(list)).size).toBe(numbers(list).length);
});

it("begins anew after many new runs", async () => {
  const source = new Source(3000);
  const list = await open(source);
  for (let number = 3001; number <= 4500; number++) source.add(number);
  list.changed(null);
  await settle();
  await settle();
  const shown = numbers(list);
  expect(shown).toEqual(Array.from({ length: shown.length }, (_, at) => 4500 - at));
});

it("removes runs that were deleted or do not match any more", async () => {
  const source = new Source(40);
  const list = await open(source);
  source.runs = source.runs.filter(({ number }) => number !== 39 && number !== 1);
  list.changed(["run_39", "run_1"]);
  await settle();
  expect(numbers(list)).not.toContain(39);
  expect(numbers(list)).toHaveLength(38);
});

it("keeps its rows after a failure and goes on when it is asked to", async () => {
  const source = new Source(3000);
  let isBroken = false;
  const list = new RunList((cursor, limit) => (isBroken ? Promise.reject(new Error("gone")) : source.fetch(cursor, limit)));
  list.open();
  await settle();
  const { length } = list.getState().rows;
  isBroken = true;
  list.look({ first: length - 30, last: length - 1, isAtTop: false });
  await settle();
  expect(list.getState()).toMatchObject({ error: new Error("gone") });
  expect(list.getState().rows).toHaveLength(length);
  isBroken = false;
  list.retry();
  await settle();
  expect(list.getState().error).toBeNull();
  expect(list.getState().rows.length).toBeGreaterThan(length);
});
