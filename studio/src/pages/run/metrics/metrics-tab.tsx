/** The metrics of a run: single values, live charts, tables, images and documents. */
import { Group, Stack, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconChevronDown, IconChevronRight, IconSearch } from "@tabler/icons-react";
import { useState } from "react";

import type { RunDetails } from "@/api/queries";
import { ChartControls, type ChartSettings, searchOf, settingsOf } from "@/components/chart/chart-controls";
import { seriesColor } from "@/components/chart/colors";
import { Empty, Failure, Loading } from "@/components/states";
import { number, plural } from "@/lib/format";
import { isFinal } from "@/lib/states";

import classes from "../run.module.css";
import { useRunSearch } from "../search";
import { Display } from "./displays";
import { groupMetrics, type Metric, shapeOf } from "./groups";
import { MetricChart } from "./metric-chart";
import styles from "./metrics.module.css";
import type { SeriesStore } from "./series-store";
import { useRunSeries } from "./use-series";

export function MetricsTab({ run }: { run: RunDetails }) {
  const { summaries, store } = useRunSeries(run);
  const [search, setSearch] = useRunSearch();
  const [filter, setFilter] = useState(search.metric ?? "");
  const [shownFilter] = useDebouncedValue(filter, 120);
  const settings = settingsOf(search);
  if (summaries.error) return <Failure error={summaries.error} retry={() => void summaries.refetch()} />;
  if (!summaries.data) return <Loading rows={4} height={120} />;
  const { metrics } = summaries.data;
  if (!Object.keys(metrics).length) return <NoMetrics isOver={isFinal(run.state)} />;
  const groups = groupMetrics(metrics, shownFilter);
  const start = Date.parse(run.started_at ?? run.created_at) / 1000;
  return (
    <Stack gap="md">
      <h2 className="hidden-text">Metrics</h2>
      <Group justify="space-between" gap="sm">
        <TextInput
          size="xs"
          type="search"
          w={{ base: "100%", xs: 240 }}
          aria-label="Filter metrics"
          placeholder="Filter by name or /expression/"
          leftSection={<IconSearch size={14} />}
          value={filter}
          onChange={(event) => {
            setFilter(event.currentTarget.value);
            setSearch({ metric: event.currentTarget.value || undefined });
          }}
        />
        <ChartControls settings={settings} onChange={(changed: ChartSettings) => setSearch(searchOf(changed))} />
      </Group>
      {!groups.length && <Text c="dimmed">No metric has this in its name.</Text>}
      {groups.map(({ prefix, metrics: found }) => (
        <MetricGroup key={prefix} {...{ run, store, settings, start, prefix }} metrics={found} isAlone={groups.length === 1} />
      ))}
    </Stack>
  );
}

type GroupProps = {
  run: RunDetails;
  store: SeriesStore;
  settings: ChartSettings;
  start: number;
  prefix: string;
  metrics: Metric[];
  isAlone: boolean;
};

function MetricGroup({ run, store, settings, start, prefix, metrics, isAlone }: GroupProps) {
  const [isOpen, setOpen] = useState(true);
  const of = (shape: string) => metrics.filter(({ series }) => shapeOf(series) === shape);
  const [values, charts, displays] = [of("value"), of("chart"), of("display")];
  return (
    <section aria-label={prefix || "Metrics"} className={classes.stack}>
      {!isAlone && (
        <UnstyledButton className={styles.group} aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? <IconChevronDown size={15} /> : <IconChevronRight size={15} />}
          <h2>{prefix || "Others"}</h2>
          <Text span size="xs" c="dimmed">
            {plural(metrics.length, "metric")}
          </Text>
        </UnstyledButton>
      )}
      {isOpen && values.length > 0 && (
        <ul className={styles.tiles}>
          {values.map((metric) => (
            <ValueTile key={metric.name} metric={metric} />
          ))}
        </ul>
      )}
      {isOpen && charts.length > 0 && (
        <div className={classes.charts}>
          {charts.map(({ name }, index) => (
            <MetricChart key={name} of={run} {...{ store, name, settings, start }} color={seriesColor(index)} />
          ))}
        </div>
      )}
      {isOpen && displays.length > 0 && (
        <div className={styles.displays}>
          {displays.map((metric) => (
            <Display key={metric.name} of={run} metric={metric} />
          ))}
        </div>
      )}
    </section>
  );
}

/** A metric that was logged once. */
export function ValueTile({ metric: { name, series } }: { metric: Metric }) {
  const value = series.values.at(-1)?.v;
  return (
    <li className={classes.tile} title={series.description ?? name}>
      <div className={classes.tileName}>{name}</div>
      <div className={classes.tileValue}>{typeof value === "object" && value !== null ? JSON.stringify(value) : number(value)}</div>
    </li>
  );
}

function NoMetrics({ isOver }: { isOver: boolean }) {
  return (
    <Empty title={isOver ? "No metrics" : "No metrics yet"}>
      A script logs them with <code>run.log(&quot;loss&quot;, loss, step=epoch)</code>; charts appear as soon as it does.
    </Empty>
  );
}

