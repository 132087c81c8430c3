/** The phases of a run, from its events: what it did when, and where an attempt ended. */
import type { Schemas } from "@/api/client";
import { isFinal } from "@/lib/states";

export type RunEvent = Schemas["EventView"];

export type Phase = {
  state: string;
  attempt: number;
  start: string;
  /** Null while it goes on. */
  end: string | null;
  message: string;
  /** Why the attempt ended with this phase, if another attempt followed. */
  lostBy: string | null;
};

/** The phases in the order of time. Events that change only the message of a state belong to its phase. */
export function phasesOf(events: RunEvent[]): Phase[] {
  const phases: Phase[] = [];
  let attempt = 1;
  for (const { kind, state, at, message, reason, data } of events) {
    if (!state || (kind !== "state" && kind !== "attempt")) continue;
    const current = phases.at(-1);
    if (kind === "state" && current?.state === state) {
      if (message) current.message = message;
      continue;
    }
    if (current) current.end = at;
    if (isFinal(state)) return phases;
    if (kind === "attempt") {
      attempt = typeof data.attempt === "number" ? data.attempt : attempt + 1;
      if (current) current.lostBy = message || reason || "ended";
    }
    phases.push({ state, attempt, start: at, end: null, message, lostBy: null });
  }
  return phases;
}

/** How long the run waited, was prepared and ran, in seconds, all attempts together. */
export function totalsOf(phases: Phase[], now: number): Record<string, number> {
  const totals: Record<string, number> = {};
  for (const { state, start, end } of phases) {
    const seconds = ((end ? Date.parse(end) : now) - Date.parse(start)) / 1000;
    totals[state] = (totals[state] ?? 0) + Math.max(0, seconds);
  }
  return totals;
}

export type Segment = Phase & {
  /** Share of the width, in percent. */
  width: number;
  seconds: number;
};

/** The phases as parts of a bar. Short ones get a width that can be seen. */
export function segmentsOf(phases: Phase[], now: number, least = 1.5): Segment[] {
  const seconds = phases.map(({ start, end }) => Math.max(0, ((end ? Date.parse(end) : now) - Date.parse(start)) / 1000));
  const sum = seconds.reduce((total, each) => total + each, 0) || 1;
  const widths = seconds.map((each) => Math.max(least, (each / sum) * 100));
  const total = widths.reduce((all, each) => all + each, 0);
  return phases.map((phase, index) => ({ ...phase, seconds: seconds[index]!, width: (widths[index]! / total) * 100 }));
}
