import { Text, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import type { RunDetails } from "@/api/queries";
import { useNow } from "@/components/time";
import { duration } from "@/lib/format";
import { isFinal } from "@/lib/states";

import { runEvents } from "../queries";
import { phasesOf, type Segment, segmentsOf } from "../timeline";
import classes from "./head.module.css";

const COLORS: Record<string, string> = {
  NotStarted: "--studio-calm",
  Queued: "--studio-waiting",
  Provisioning: "--studio-waiting",
  Starting: "--studio-calm",
  Preparing: "--studio-series-2",
  Running: "--studio-busy",
  Finalizing: "--studio-good",
  NotResponding: "--studio-bad",
};
const colorOf = (state: string) => `var(${COLORS[state] ?? "--studio-calm"}, var(--studio-calm))`;

/** The phases of a run, as long as they took. */
export function TimelineBar({ run }: { run: RunDetails }) {
  const { data } = useQuery(runEvents(run));
  const now = useNow(isFinal(run.state) ? 0 : 1);
  const phases = phasesOf(data ?? []);
  if (!phases.length) return <div className={classes.timeline} style={{ height: 35 }} />;
  const segments = segmentsOf(phases, now);
  return (
    <div className={classes.timeline} role="group" aria-label="Timeline">
      <div className={classes.bar} aria-hidden>
        {segments.map((segment, index) => (
          <Tooltip key={index} label={tip(segment)} multiline maw={420}>
            <div
              className={classes.segment}
              data-lost={segment.lostBy !== null || undefined}
              data-waiting={segment.state === "Queued" || undefined}
              style={{ width: `${segment.width}%`, background: colorOf(segment.state) }}
            />
          </Tooltip>
        ))}
      </div>
      <ol className={classes.legend}>
        {segments.map((segment, index) => (
          <li key={index}>
            <span className={classes.dot} style={{ background: colorOf(segment.state) }} aria-hidden />
            {segment.attempt > 1 && segments[index - 1]?.attempt !== segment.attempt && `Attempt ${segment.attempt}: `}
            {segment.state}
            <Text span size="xs" c="var(--mantine-color-text)">
              {duration(segment.seconds)}
            </Text>
            {segment.lostBy && <span className="hidden-text">, ended: {segment.lostBy}</span>}
          </li>
        ))}
      </ol>
    </div>
  );
}

function tip({ state, seconds, attempt, message, start, lostBy }: Segment): string {
  const title = `${state} for ${duration(seconds)}, from ${new Date(start).toLocaleTimeString()}`;
  const which = attempt > 1 ? ` (attempt ${attempt})` : "";
  return [title + which, lostBy ?? message].filter(Boolean).join(": ");
}
