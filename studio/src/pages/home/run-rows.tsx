import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { type Run, type RunFilters, someRuns } from "@/api/queries";
import { RunLink } from "@/components/run-link";
import { StateBadge } from "@/components/state-badge";
import { Failure, Loading } from "@/components/states";
import { Ago, Duration } from "@/components/time";
import classes from "./home.module.css";

type Props = {
  workspace: string;
  filters: RunFilters;
  limit: number;
  time: "started" | "created" | "ended";
  /** Whether the reason of the state is shown below the run. */
  showsMessage?: boolean;
  empty: string;
};

/** A short list of runs. */
export function RunRows({ workspace, filters, limit, time, showsMessage = false, empty }: Props) {
  const { data, error, refetch } = useQuery(someRuns(workspace, filters, limit));
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <div className={classes.pad}><Loading rows={3} /></div>;
  if (!data.runs.length) return <Text c="dimmed" size="sm" className={classes.pad}>{empty}</Text>;
  return (
    <ul className={classes.rows}>
      {data.runs.map((run) => (
        <li key={run.id} className={classes.row}>
          <div className={classes.name}>
            <RunLink workspace={workspace} run={run} />
            <Text size="xs" c="dimmed" truncate>
              {run.experiment} · {run.target || "this process"} · {run.submitted_by}
            </Text>
            {showsMessage && (
              <Text size="xs" className={classes.message} data-bad={run.state === "Failed" || undefined}>
                {reasonOf(run)}
              </Text>
            )}
          </div>
          <StateBadge state={run.state} message={run.message} />
          <Text size="sm" c="dimmed" className={classes.time}>
            {time === "started" ? <Duration start={run.started_at} end={run.ended_at} /> : null}
            {time === "created" ? <Ago time={run.created_at} /> : null}
            {time === "ended" ? <Ago time={run.ended_at} /> : null}
          </Text>
        </li>
      ))}
    </ul>
  );
}

function reasonOf(run: Run): string {
  const error = run.error?.message;
  return run.message || (typeof error === "string" ? error : "") || run.reason || "No reason is known yet.";
}
