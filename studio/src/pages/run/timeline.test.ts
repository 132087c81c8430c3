import { describe, expect, it } from "vitest";

import { phasesOf, type RunEvent, segmentsOf } from "./timeline";

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();

function event(seconds: number, kind: string, state: string | null, message = "", data: Record<string, unknown> = {}): RunEvent {
  return { run: "r", seq: seconds, at: at(seconds), kind, state, reason: null, message, data } as RunEvent;
}

describe("phasesOf", () => {
  it("has a phase for each state, until the next one; the last one goes on", () => {
    const phases = phasesOf([event(0, "state", "Queued", "waits"), event(1, "state", "Queued", "still waits"), event(5, "state", "Running")]);
    expect(phases.map(({ state, start, end, message }) => [state, start, end, message])).toEqual([
      ["Queued", at(0), at(5), "still waits"],
      ["Running", at(5), null, ""],
    ]);
  });

  it("ends with the run", () => {
    const phases = phasesOf([event(0, "state", "Running"), event(9, "state", "Completed"), event(10, "late_report", null)]);
    expect(phases).toHaveLength(1);
    expect(phases[0]!.end).toBe(at(9));
  });

  it("says with which phase an attempt was lost, and counts the next one", () => {
    const phases = phasesOf([
      event(0, "state", "Running"),
      event(3, "eviction", null, "an eviction was requested"),
      event(4, "attempt", "Queued", "evicted: its node was taken away", { attempt: 2 }),
      event(6, "state", "Running"),
    ]);
    expect(phases.map(({ state, attempt, lostBy }) => [state, attempt, lostBy])).toEqual([
      ["Running", 1, "evicted: its node was taken away"],
      ["Queued", 2, null],
      ["Running", 2, null],
    ]);
  });
});

describe("segmentsOf", () => {
  it("fills the width in proportion, and shows short phases too", () => {
    const phases = phasesOf([event(0, "state", "Starting"), event(1, "state", "Running"), event(1000, "state", "Finalizing")]);
    const segments = segmentsOf(phases, Date.parse(at(2000)));
    expect(segments.reduce((sum, { width }) => sum + width, 0)).toBeCloseTo(100, 6);
    expect(segments[0]!.width).toBeGreaterThan(1);
    expect(segments.map(({ seconds }) => seconds)).toEqual([1, 999, 1000]);
  });
});
