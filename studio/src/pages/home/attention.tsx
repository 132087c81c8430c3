/** What somebody should look at: runs that are overdue, targets that are in quarantine or failed. */
import { Anchor, Text } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { Target } from "@/api/queries";
import { Section } from "@/components/page";
import { RunLink } from "@/components/run-link";
import { Dot, StateBadge } from "@/components/state-badge";
import { Ago } from "@/components/time";
import { healthOf } from "@/lib/health";
import classes from "./home.module.css";
import type { Overdue } from "./queries";

type Props = { workspace: string; overdue: Overdue[]; targets: Target[] };

export function Attention({ workspace, overdue, targets }: Props) {
  const bad = targets.filter((target) => healthOf(target).tone === "bad");
  if (!overdue.length && !bad.length) return null;
  return (
    <div className={classes.attention}>
      <Section title="Needs attention">
        <ul className={classes.rows}>
          {bad.map((target) => (
            <li key={target.name} className={classes.row}>
              <div className={classes.name}>
                <Anchor component={Link} to={`/workspaces/${encodeURIComponent(workspace)}/compute/${encodeURIComponent(target.name)}`} size="sm" fw={500}>
                  {target.name}
                </Anchor>
                <Text size="xs" className={classes.message} data-bad>
                  {target.quarantine || target.provisioning_message || "No reason is known."}
                </Text>
              </div>
              <Dot {...healthOf(target)} title={undefined} />
              <Text size="sm" c="dimmed" className={classes.time}>
                {target.active_runs} active, {target.queued_runs} queued
              </Text>
            </li>
          ))}
          {overdue.map((run) => (
            <li key={run.id} className={classes.row}>
              <div className={classes.name}>
                <RunLink workspace={workspace} run={{ ...run, number: 0 }} />
                <Text size="xs" className={classes.message}>
                  {run.message}
                </Text>
              </div>
              <StateBadge state={run.state} />
              <Text size="sm" c="dimmed" className={classes.time}>
                overdue since <Ago time={run.since} />
              </Text>
            </li>
          ))}
        </ul>
      </Section>
    </div>
  );
}
