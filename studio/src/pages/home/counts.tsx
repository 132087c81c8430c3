/** How many runs are in which state, each a link to them. */
import { Link } from "@tanstack/react-router";

import { number } from "@/lib/format";
import classes from "./home.module.css";
import type { Summary } from "./queries";

export const RUNNING = ["Running", "Finalizing", "NotResponding"];
export const WAITING = ["NotStarted", "Queued", "Provisioning", "Starting", "Preparing"];

const COUNTS: { label: string; states: string[]; tone: string }[] = [
  { label: "Running", states: RUNNING, tone: "busy" },
  { label: "Waiting", states: WAITING, tone: "waiting" },
  { label: "Completed", states: ["Completed"], tone: "good" },
  { label: "Failed", states: ["Failed"], tone: "bad" },
  { label: "Canceled", states: ["CancelRequested", "Canceled"], tone: "calm" },
];

export function Counts({ workspace, runs }: { workspace: string; runs: Summary["runs"] }) {
  return (
    <ul className={classes.counts} aria-label="Runs by state">
      {COUNTS.map(({ label, states, tone }) => {
        const count = states.reduce((sum, state) => sum + (runs[state] ?? 0), 0);
        return (
          <li key={label}>
            <Link to={`/workspaces/${encodeURIComponent(workspace)}/runs`} search={{ state: states } as never} className={classes.count}>
              <span className={classes.countNumber} style={count ? { color: `var(--studio-${tone})` } : undefined}>
                {number(count)}
              </span>
              <span className={classes.countLabel}>{label}</span>
            </Link>
          </li>
        );
      })}
    </ul>
  );
}
