/** The head of a run's page: what it is, how it is and why, and what can be done with it. */
import { Anchor, Group, Text, Title, Tooltip } from "@mantine/core";
import { useDocumentTitle } from "@mantine/hooks";
import { Link } from "@tanstack/react-router";
import { Fragment, type ReactNode } from "react";

import type { RunDetails } from "@/api/queries";
import { Copy } from "@/components/code";
import { StateBadge } from "@/components/state-badge";
import { Ago, Duration } from "@/components/time";
import { isFinal } from "@/lib/states";

import { RunActions } from "./actions";
import classes from "./head.module.css";
import { hintOf, reasonText } from "./reasons";
import { Tags } from "./tags";
import { TimelineBar } from "./timeline-bar";

export function RunHead({ run }: { run: RunDetails }) {
  const home = `/workspaces/${encodeURIComponent(run.workspace)}`;
  const name = run.name || run.id;
  const reason = reasonText(run);
  const hint = hintOf(run);
  useDocumentTitle(`${run.state}: ${name} · Windlass`);
  return (
    <header className={classes.head}>
      <div className={classes.top}>
        <div className={classes.names}>
          <Group gap={8} wrap="nowrap">
            <Title order={1} className={classes.title}>
              {name}
            </Title>
            <Copy text={run.id} label="Copy the run's id" />
          </Group>
          <Text size="xs" c="dimmed" className={classes.id}>
            {run.name ? run.id : `Run ${run.number} of ${run.experiment}`}
            {run.archived_at && " · archived"}
          </Text>
        </div>
        <RunActions run={run} isArchived={run.archived_at !== null} />
      </div>
      <div className={classes.state} role="status">
        <StateBadge state={run.state} />
        {run.intent === "cancel" && !isFinal(run.state) && <Text span size="sm" c="dimmed">cancel requested</Text>}
        {reason && (
          <Text span size="sm" className={classes.reason}>
            {reason}
          </Text>
        )}
        {hint && (
          <Text span size="sm" c="dimmed">
            {hint}
          </Text>
        )}
      </div>
      <Facts run={run} home={home} />
      <Tags run={run} />
      <TimelineBar run={run} />
    </header>
  );
}

function Facts({ run, home }: { run: RunDetails; home: string }) {
  const to = (path: string, text: string) => (
    <Anchor component={Link} to={home + path} size="sm">
      {text}
    </Anchor>
  );
  const facts: [string, ReactNode][] = [
    ["Experiment", to(`/experiments/${encodeURIComponent(run.experiment)}`, run.experiment)],
    ["Target", run.target ? to(`/compute/${encodeURIComponent(run.target)}`, run.target) : "this process"],
    ["Member", run.submitted_by],
    ["Submitted", <Ago time={run.created_at} />],
    ["Took", <Tooltip label={times(run)}><span><Duration start={run.started_at} end={run.ended_at} /></span></Tooltip>],
    ["Exit code", run.exit_code ?? (run.signal ? `signal ${run.signal}` : null)],
    ["Attempt", run.attempt > 1 ? run.attempt : null],
    ["Parent", run.parent && to(`/runs/${encodeURIComponent(run.parent)}`, run.parent)],
  ];
  return (
    <dl className={classes.facts}>
      {facts
        .filter(([, value]) => value !== null && value !== "")
        .map(([name, value]) => (
          <Fragment key={name}>
            <div>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          </Fragment>
        ))}
    </dl>
  );
}

function times({ started_at, ended_at }: RunDetails): string {
  if (!started_at) return "It has not started.";
  const text = `Started ${new Date(started_at).toLocaleString()}`;
  return ended_at ? `${text}, ended ${new Date(ended_at).toLocaleString()}` : text;
}
