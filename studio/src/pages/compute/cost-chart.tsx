/** Node-time or cost over a period, one bar a day or an hour. */
import { Text, Tooltip } from "@mantine/core";

import { duration, money } from "@/lib/format";
import classes from "./compute.module.css";
import { overTime, type Period, type RunCost } from "./cost";

export function CostChart({ runs, period }: { runs: RunCost[]; period: Period }) {
  const slices = overTime(runs, period);
  const hasCost = slices.some(({ cost }) => cost > 0);
  const most = Math.max(...slices.map((slice) => (hasCost ? slice.cost : slice.seconds)), 0);
  const total = slices.reduce((sum, { cost, seconds }) => ({ cost: sum.cost + cost, seconds: sum.seconds + seconds }), { cost: 0, seconds: 0 });
  const label = `${hasCost ? `${money(total.cost)}, ` : ""}${duration(total.seconds)} of nodes in all`;
  const day = (start: Date) =>
    period === "24h"
      ? start.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })
      : start.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return (
    <div className={classes.pad}>
      <div className={classes.bars} role="img" aria-label={`Use over time: ${label}`}>
        {slices.map((slice) => {
          const part = most ? (hasCost ? slice.cost : slice.seconds) / most : 0;
          return (
            <Tooltip
              key={slice.start.getTime()}
              label={`${day(slice.start)}: ${hasCost ? `${money(slice.cost)}, ` : ""}${duration(slice.seconds)} of nodes`}
            >
              <span style={{ height: `${Math.max(part * 100, 1)}%` }} data-zero={part === 0 || undefined} />
            </Tooltip>
          );
        })}
      </div>
      <Text size="xs" c="dimmed" className={classes.line} component="div" mt={4}>
        <span>{day(slices[0]!.start)}</span>
        <span>{label}</span>
        <span>now</span>
      </Text>
    </div>
  );
}
