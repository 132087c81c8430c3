/** What the runs of a target have cost over time, and who submitted the most expensive ones. */
import { SegmentedControl, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { Section } from "@/components/page";
import { Failure, Loading } from "@/components/states";
import { duration, money } from "@/lib/format";
import { useWorkspace } from "@/lib/workspace";
import classes from "./compute.module.css";
import { type Period, PERIODS, sinceOf, sumBy } from "./cost";
import { CostChart } from "./cost-chart";
import { costs } from "./queries";

const MOST = 5;

export function TargetCost({ name }: { name: string }) {
  const { workspace } = useWorkspace();
  const [period, setPeriod] = useState<Period>("30d");
  const { data, error, refetch } = useQuery(costs(workspace, sinceOf(period), name));
  return (
    <Section title="Cost">
      <div className={classes.pad}>
        <SegmentedControl size="xs" aria-label="Period of the cost" data={PERIODS} value={period} onChange={(value) => setPeriod(value as Period)} />
      </div>
      {error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : !data ? (
        <div className={classes.pad}>
          <Loading rows={3} />
        </div>
      ) : !data.runs.length ? (
        <Text size="sm" c="dimmed" className={classes.pad}>No run had nodes there in this period.</Text>
      ) : (
        <>
          <CostChart runs={data.runs} period={period} />
          <ul className={classes.rows}>
            {sumBy(data.runs, (run) => run.submitted_by).slice(0, MOST).map((sum) => (
              <li key={sum.name} className={classes.line}>
                <Text size="sm">{sum.name || "–"}</Text>
                <Text size="sm" c="dimmed">
                  {sum.cost === null ? "" : `${money(sum.cost)} · `}
                  {duration(sum.seconds)}
                </Text>
              </li>
            ))}
          </ul>
        </>
      )}
    </Section>
  );
}
