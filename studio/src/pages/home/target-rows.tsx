import { Anchor, Text } from "@mantine/core";
import { useQueries, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { cost, type Target, targets } from "@/api/queries";
import { Section } from "@/components/page";
import { Dot } from "@/components/state-badge";
import { Failure, Loading } from "@/components/states";
import { healthOf } from "@/lib/health";
import { money, plural } from "@/lib/format";
import classes from "./home.module.css";

/** The targets of a workspace with their health and their queues. */
export function TargetRows({ workspace }: { workspace: string }) {
  const { data, error, refetch } = useQuery(targets(workspace));
  if (error) return <Failure error={error} retry={() => void refetch()} />;
  if (!data) return <div className={classes.pad}><Loading rows={3} /></div>;
  return (
    <ul className={classes.rows}>
      {data.targets.map((target) => (
        <li key={target.name} className={classes.row}>
          <div className={classes.name}>
            <TargetLink workspace={workspace} name={target.name} />
            <Text size="xs" c="dimmed" truncate>
              {[target.kind, target.location, nodesOf(target)].filter(Boolean).join(" · ")}
            </Text>
          </div>
          <Dot {...healthOf(target)} />
          <Text size="sm" c="dimmed" className={classes.time}>
            {target.active_runs} active, {target.queued_runs} queued
          </Text>
        </li>
      ))}
    </ul>
  );
}

function nodesOf(target: Target): string {
  const counts = Object.entries(target.nodes ?? {}).filter(([, count]) => count > 0);
  return counts.map(([state, count]) => `${count} ${state}`).join(", ");
}

function TargetLink({ workspace, name }: { workspace: string; name: string }) {
  return (
    <Anchor component={Link} to={`/workspaces/${encodeURIComponent(workspace)}/compute/${encodeURIComponent(name)}`} size="sm" fw={500}>
      {name}
    </Anchor>
  );
}

/** Targets whose nodes are idle and have a price: they cost money and do nothing. Nothing is shown if there are none. */
export function IdleCost({ workspace }: { workspace: string }) {
  const [known, costs] = useQueries({ queries: [targets(workspace), cost(workspace)] });
  const prices = new Map(costs.data?.targets.map((each) => [each.target, each.price_per_hour]));
  const idle = (known.data?.targets ?? []).flatMap((target) => {
    const count = target.nodes?.idle ?? 0;
    const price = prices.get(target.name);
    return count && price ? [{ name: target.name, count, perHour: count * price }] : [];
  });
  if (!idle.length) return null;
  return (
    <Section title="Idle, and costs money">
      <ul className={classes.rows}>
        {idle.map(({ name, count, perHour }) => (
          <li key={name} className={classes.row}>
            <div className={classes.name}>
              <TargetLink workspace={workspace} name={name} />
            </div>
            <Text size="sm">{plural(count, "idle node")}</Text>
            <Text size="sm" className={classes.time}>
              {money(perHour)} an hour
            </Text>
          </li>
        ))}
      </ul>
    </Section>
  );
}
