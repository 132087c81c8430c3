/** The chart of one metric: live, finer where it is zoomed, larger in a dialog, and as CSV. */
import { ActionIcon, Menu, Modal, Skeleton } from "@mantine/core";
import { useDebouncedValue, useIntersection } from "@mantine/hooks";
import { notifications } from "@mantine/notifications";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { IconDots, IconDownload, IconMaximize } from "@tabler/icons-react";
import { useEffect, useMemo, useState } from "react";

import { request, type Schemas } from "@/api/client";
import { Chart } from "@/components/chart/chart";
import type { ChartSettings } from "@/components/chart/chart-controls";
import { type ApiPoint, columnsOf, type Extent } from "@/components/chart/series";
import { describe } from "@/components/states";
import { parseJson } from "@/lib/json";

import { useDocument } from "../logs/use-document";
import { runPath } from "../queries";
import classes from "../run.module.css";
import { csvOf } from "./groups";
import { pointsBetween } from "./series-source";
import { indexRange, MAX_POINTS, refine, type SeriesStore } from "./series-store";

type Of = { workspace: string; id: string };
type Props = { of: Of; store: SeriesStore; name: string; settings: ChartSettings; start: number; color: string };

const NO_POINTS: ApiPoint[] = [];
const HEIGHT = 190;
/** A chart is loaded when it comes so near to what is visible. */
const NEARBY = "600px";

export function MetricChart(props: Props) {
  const { ref, entry } = useIntersection({ rootMargin: NEARBY });
  const [wasSeen, setSeen] = useState(false);
  const [isLarge, setLarge] = useState(false);
  const isNear = entry?.isIntersecting ?? false;
  useEffect(() => setSeen((was) => was || isNear), [isNear]);
  return (
    <div className={classes.card} ref={ref} style={{ minHeight: HEIGHT + 44 }}>
      {wasSeen ? <Drawn {...props} height={HEIGHT} onMaximize={() => setLarge(true)} /> : <Skeleton height={HEIGHT + 30} />}
      <Modal opened={isLarge} onClose={() => setLarge(false)} size="90%" title={props.name}>
        <Drawn {...props} height={Math.max(300, window.innerHeight * 0.6)} />
      </Modal>
    </div>
  );
}

function Drawn({ of, store, name, settings, start, color, height, onMaximize }: Props & { height: number; onMaximize?: () => void }) {
  useDocument(store);
  useEffect(() => store.need(name), [store, name]);
  const [range, setRange] = useState<Extent | null>(null);
  const series = store.get(name);
  const points = series?.points ?? NO_POINTS;
  const fine = useFinePoints(of, name, points, settings, start, range, series?.count ?? 0);
  const lines = useMemo(
    () => [{ name, color, ...columnsOf(refine(points, fine), settings.kind, start) }],
    [name, color, points, points.length, fine, settings.kind, start],
  );
  if (!series) return <Skeleton height={height + 30} />;
  return (
    <Chart
      title={name}
      series={lines}
      {...settings}
      height={height}
      range={range}
      onRange={setRange}
      sync={onMaximize && `run ${of.id}`}
      actions={
        <>
          <ChartMenu of={of} name={name} />
          {onMaximize && (
            <ActionIcon size="sm" aria-label={`Maximize ${name}`} onClick={onMaximize}>
              <IconMaximize size={14} />
            </ActionIcon>
          )}
        </>
      }
    />
  );
}

/** More points of the part that is shown, where the server has thinned it. */
function useFinePoints(
  of: Of,
  name: string,
  points: readonly ApiPoint[],
  settings: ChartSettings,
  start: number,
  range: Extent | null,
  count: number,
): ApiPoint[] {
  const [wanted] = useDebouncedValue(range, 80);
  const indexes = useMemo(() => {
    if (!wanted || count <= points.length) return null;
    const found = indexRange(points, columnsOf(points, settings.kind, start).x, wanted);
    const known = found ? points.filter(([index]) => Number(index) >= found[0] && Number(index) <= found[1]).length : 0;
    return found && found[1] - found[0] + 1 > known ? found : null;
  }, [wanted, settings.kind, start, count > points.length]); // eslint-disable-line react-hooks/exhaustive-deps
  const { data } = useQuery({
    queryKey: ["points", of.workspace, of.id, name, indexes],
    enabled: indexes !== null,
    staleTime: 60_000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => pointsBetween(of, name, indexes!, MAX_POINTS, signal),
  });
  return (indexes && data) || NO_POINTS;
}

function ChartMenu({ of, name }: { of: Of; name: string }) {
  const client = useQueryClient();
  async function save() {
    try {
      const values = await client.fetchQuery({
        queryKey: ["csv", of.workspace, of.id, name],
        queryFn: async () => {
          const response = await request(runPath(of, `/metrics?${new URLSearchParams({ name })}`));
          return (parseJson(await response.text()) as Schemas["AllSeries"]).metrics[name]?.values ?? [];
        },
      });
      saveText(`${name.replaceAll(/[^\w.-]+/g, "_")}.csv`, csvOf(values));
    } catch (error) {
      notifications.show({ color: "red", message: describe(error).message });
    }
  }
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon size="sm" aria-label={`More for ${name}`}>
          <IconDots size={14} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item leftSection={<IconDownload size={14} />} onClick={() => void save()}>
          Download as CSV
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

/** Lets the browser save a text as a file. */
export function saveText(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
