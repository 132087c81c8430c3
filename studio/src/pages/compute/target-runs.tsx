/** The runs that are active on a target, and its queue with what each run waits for. */
import { Anchor, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { someRuns } from "@/api/queries";
import { Section } from "@/components/page";
import { RunLink } from "@/components/run-link";
import { StateBadge } from "@/components/state-badge";
import { Failure, Loading } from "@/components/states";
import { Ago, Duration } from "@/components/time";
import { useWorkspace } from "@/lib/workspace";
import classes from "./compute.module.css";

const ACTIVE = ["Provisioning", "Starting", "Preparing", "Running", "Finalizing", "NotResponding"];
const QUEUED = ["NotStarted", "Queued"];
const MOST = 10;

export function TargetRuns({ name }: { name: string }) {
  return (
    <>
      <Runs name={name} title="Active runs" states={ACTIVE} empty="Nothing runs there at the moment." />
      <Runs name={name} title="Queue" states={QUEUED} empty="No run waits for it." />
    </>
  );
}

function Runs({ name, title, states, empty }: { name: string; title: string; states: string[]; empty: string }) {
  const { workspace, home } = useWorkspace();
  const { data, error, refetch } = useQuery(someRuns(workspace, { target: name, state: states, sort: "created_at" }, MOST));
  const isQueue = states === QUEUED;
  const all = (
    <Anchor component={Link} to={`${home}/runs`} search={{ target: name, state: states } as never} size="sm" aria-label={`All: ${title.toLowerCase()}`}>
      All
    </Anchor>
  );
  return (
    <Section title={title} actions={all}>
      {error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : !data ? (
        <div className={classes.pad}>
          <Loading rows={2} />
        </div>
      ) : !data.runs.length ? (
        <Text size="sm" c="dimmed" className={classes.pad}>{empty}</Text>
      ) : (
        <ul className={classes.rows}>
          {data.runs.map((run) => (
            <li key={run.id}>
              <div className={classes.line}>
                <RunLink workspace={workspace} run={run} />
                <StateBadge state={run.state} />
              </div>
              <Text size="xs" c="dimmed" className={classes.line} component="div">
                <span>
                  {run.experiment} · {run.submitted_by}
                </span>
                <span>{isQueue ? <Ago time={run.created_at} /> : <Duration start={run.started_at} end={run.ended_at} />}</span>
              </Text>
              {run.message && <Text size="xs" className={isQueue ? classes.idle : classes.reason}>{run.message}</Text>}
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}
