/** A metric of several runs in one chart. It is loaded when it comes into sight, and finer where it is zoomed. */
import { useIntersection } from "@mantine/hooks";
import { keepPreviousData, useQueries } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { Chart } from "@/components/chart/chart";
import type { ChartSettings } from "@/components/chart/chart-controls";
import { columnsOf, type Extent, indicesOf } from "@/components/chart/series";
import classes from "./compare-page.module.css";
import type { Compared } from "./compare-page";
import { seriesPoints } from "./queries";

const HEIGHT = 210;
const MOST_POINTS = 1200;

type Props = { workspace: string; name: string; runs: Compared[]; settings: ChartSettings };

export function CompareChart({ workspace, name, runs, settings }: Props) {
  const { ref, entry } = useIntersection<HTMLDivElement>({ rootMargin: "400px" });
  const [wasSeen, setSeen] = useState(false);
  if (entry?.isIntersecting && !wasSeen) setSeen(true);
  const [range, setRange] = useState<Extent | null>(null);
  const having = runs.filter(({ series }) => series?.[name]?.kind === "scalar");
  const whole = useQueries({ queries: having.map(({ id }) => ({ ...seriesPoints(workspace, id, name, MOST_POINTS), enabled: wasSeen })) });
  const { kind } = settings;
  const fine = useQueries({
    queries: having.map(({ id }, at) => {
      const known = whole[at]!.data;
      const isThinned = known !== undefined && known.count > known.points.length;
      const indices = range && isThinned ? indicesOf(known.points, kind, range, startOf(known.points)) : null;
      return { ...seriesPoints(workspace, id, name, MOST_POINTS, indices), enabled: indices !== null, placeholderData: keepPreviousData };
    }),
  });
  const data = having.map((_, at) => {
    const all = whole[at]!.data?.points ?? [];
    const part = range ? fine[at]!.data?.points : undefined;
    return { points: part?.length ? part : all, start: startOf(all) };
  });
  const series = useMemo(
    () => having.map(({ id, color, dash }, at) => ({ name: label(runs, id), color, dash, ...columnsOf(data[at]!.points, kind, data[at]!.start) })),
    [kind, runs.map(({ id }) => id).join(), ...data.map(({ points }) => points)], // eslint-disable-line react-hooks/exhaustive-deps
  );
  const isReady = wasSeen && whole.every(({ isPending }) => !isPending);
  return (
    <div ref={ref} className={classes.chart}>
      <Chart
        title={name}
        series={isReady ? series : []}
        kind={kind}
        isLog={settings.isLog}
        smoothing={settings.smoothing}
        height={HEIGHT}
        range={range}
        onRange={setRange}
        sync="compare"
        hasLegend={false}
        empty={isReady ? undefined : "Loading …"}
      />
    </div>
  );
}

const startOf = (points: (number | null)[][]): number | undefined => points[0]?.[2] ?? undefined;

/** The name of a run; with its number if another run has the same name. */
function label(runs: Compared[], id: string): string {
  const own = runs.find((each) => each.id === id)!;
  const isShared = runs.some((each) => each.id !== id && each.name === own.name);
  return isShared ? `${own.name} #${own.details.number}` : own.name;
}
