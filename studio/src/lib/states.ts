/** States of runs, as people read them: a word, a tone, and whether the run can still change. */
import type { Schemas } from "@/api/client";

export type RunState = Schemas["RunState"];
export type Tone = "good" | "bad" | "busy" | "waiting" | "calm";

const TONES: Record<string, Tone> = {
  Completed: "good",
  Failed: "bad",
  NotResponding: "bad",
  Canceled: "calm",
  CancelRequested: "calm",
  Running: "busy",
  Finalizing: "busy",
  Preparing: "busy",
  Provisioning: "busy",
  Starting: "busy",
  Queued: "waiting",
  NotStarted: "waiting",
};
const FINAL = new Set(["Completed", "Failed", "Canceled"]);

export const toneOf = (state: string): Tone => TONES[state] ?? "calm";
export const isFinal = (state: string): boolean => FINAL.has(state);
export const colorOf = (tone: Tone): string => `var(--studio-${tone})`;
